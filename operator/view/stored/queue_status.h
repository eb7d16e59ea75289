#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/queue/training_queue.h"
#include "operator/scheduler/state/cluster_state.h"
#include "operator/view/stored/stored_queue.h"

namespace lockstep::control {

// What people are to know of each queue, by its name. `state` has these queues.
std::map<std::string, QueueStatus> QueueStatuses(const std::vector<StoredQueue>& queues,
                                                 const ClusterState& state);

// The same of the queue `default`, which jobs are in that name none, where nobody has written one;
// null: somebody has, and it is among the others.
std::optional<QueueStatus> DefaultStanding(const std::vector<StoredQueue>& queues,
                                           const ClusterState& state);

}  // namespace lockstep::control
