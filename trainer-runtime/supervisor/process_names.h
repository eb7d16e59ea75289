#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// "rank 3", or "process 1" where it is no rank.
std::string NameOf(const std::vector<SupervisedProcess>& processes, std::size_t local_rank);

// The same for whom the end is of: a rank that torchrun had started, or the process itself.
std::string NameOf(const std::vector<SupervisedProcess>& processes, const SupervisorEvent& ended);

// Makes the end that of the rank, where torchrun, which the process was, has told of one.
void BlameRank(const std::optional<RankEnd>& launched, SupervisorEvent* ended);

// Of all, by local rank.
std::vector<std::string> NamesOf(const std::vector<SupervisedProcess>& processes);

}  // namespace lockstep::runtime
