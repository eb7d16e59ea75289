#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// How long a node on which a pod could not start comes last: 2 min after the first time, doubling,
// at most 1 h. Choices: longer than it takes to try the others, and a node that was mended is used
// again on the same day.
inline constexpr std::chrono::minutes kSuspicionMin{2};
inline constexpr std::chrono::minutes kSuspicionMax{60};

// As many are remembered. Choice: the ledger stays small, and a cause that meets more nodes is not
// the nodes'.
inline constexpr std::size_t kSuspectNodesMax = 16;

// `suspects` after a pod could not start on `node` once more. Those whose time is long over are
// forgotten; of too many, those whose time ends first.
std::vector<SuspectNode> WithSuspect(std::vector<SuspectNode> suspects,
                                     const std::string& node,
                                     const std::string& reason,
                                     WallTime now);

// `suspects` without the nodes that have proved themselves.
std::vector<SuspectNode> WithoutNodes(std::vector<SuspectNode> suspects,
                                      const std::set<std::string>& proved);

// How suspect the node is: 0 not at all; among others that are, the one with less comes first.
int64_t SuspicionOf(const std::vector<SuspectNode>& suspects,
                    const std::string& node,
                    WallTime now);

}  // namespace lockstep::control
