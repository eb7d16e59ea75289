#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "operator/api/training_queue.h"
#include "operator/kube/item.h"
#include "operator/scheduler/cluster_state.h"
#include "operator/scheduler/queue_tree.h"

namespace lockstep::control {

// A TrainingQueue as an API server keeps it.
struct StoredQueue {
  TrainingQueue queue;  // complete only if `problem` is empty
  std::string problem;  // why it cannot be read; for people
  Json status;          // as it is stored; null: none
  std::string version;  // of the object, by which a write says what it has seen

  friend bool operator==(const StoredQueue&, const StoredQueue&) = default;
};

// For the reflector of queues. Errors: as kube::DecodeRaw.
Result<kube::Item<StoredQueue>> DecodeStoredQueue(std::string_view json);

// What rounds are to know of these queues. Left out are those that cannot be read, and those whose
// parents are not there, or are below themselves.
std::vector<QueueSpec> UsableQueues(const std::vector<StoredQueue>& queues);

// Why each of the others is not, by its name.
std::map<std::string, std::string> UnusableQueues(const std::vector<StoredQueue>& queues);

// How long jobs of each queue may run, by its name: the least of what it and those above it say.
// Left out are queues without a limit, and those of UnusableQueues, whose jobs that run already run
// on.
std::map<std::string, RunTimeLimit> RunTimeLimits(const std::vector<StoredQueue>& queues);

// What people are to know of each queue, by its name. `state` has these queues.
std::map<std::string, QueueStatus> QueueStatuses(const std::vector<StoredQueue>& queues,
                                                 const ClusterState& state);

// The same of the queue `default`, which jobs are in that name none, where nobody has written one;
// null: somebody has, and it is among the others.
std::optional<QueueStatus> DefaultStanding(const std::vector<StoredQueue>& queues,
                                           const ClusterState& state);

}  // namespace lockstep::control
