#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// "rank 3", or "process 1" where it is no rank.
std::string NameOf(const std::vector<SupervisedProcess>& processes, std::size_t local_rank);

// Of all, by local rank.
std::vector<std::string> NamesOf(const std::vector<SupervisedProcess>& processes);

}  // namespace lockstep::runtime
