#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "operator/api/training_queue.h"
#include "operator/kube/item.h"
#include "operator/scheduler/queue_tree.h"

namespace lockstep::control {

// A TrainingQueue as an API server keeps it.
struct StoredQueue {
  TrainingQueue queue;  // complete only if `problem` is empty
  std::string problem;  // why it cannot be read; for people

  friend bool operator==(const StoredQueue&, const StoredQueue&) = default;
};

// For the reflector of queues. Errors: as kube::DecodeRaw.
Result<kube::Item<StoredQueue>> DecodeStoredQueue(std::string_view json);

// What rounds are to know of these queues. Left out are those that cannot be read, and those whose
// parents are not there, or are below themselves.
std::vector<QueueSpec> UsableQueues(const std::vector<StoredQueue>& queues);

}  // namespace lockstep::control
