#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "operator/api/queue/training_queue.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/scheduler/queue/queue_tree.h"

namespace lockstep::control {

// A TrainingQueue as an API server keeps it.
struct StoredQueue {
  TrainingQueue queue;  // what can be read of it; all of it if `problem` is empty
  std::string problem;  // why it cannot be read; for people
  Json status;          // as it is stored; null: none
  std::string version;  // of the object, by which a write says what it has seen

  friend bool operator==(const StoredQueue&, const StoredQueue&) = default;
};

// For the reflector of queues. Errors: as kube::DecodeRaw.
Result<kube::Item<StoredQueue>> DecodeStoredQueue(std::string_view json);

using QueuesByName = std::map<std::string, const StoredQueue*>;

// Of the same `queues`, which outlive it.
QueuesByName ByName(const std::vector<StoredQueue>& queues);

// What rounds are to know of these queues: on whose bill gangs are. Left out are those whose
// parents are not there, or are below themselves. Those that cannot be read are among them, with
// what is readable of them, as gangs that run there count for the queues above.
std::vector<QueueSpec> UsableQueues(const std::vector<StoredQueue>& queues);

// Which of all these are not served, and why, by name: those that are left out, those that cannot
// be read, and those below them.
std::map<std::string, std::string> UnservedQueues(const std::vector<StoredQueue>& queues);

// How long jobs of each queue may run, by its name: the least of what it and those above it say.
// Left out are queues without a limit, and those of UnservedQueues, whose jobs that run already run
// on.
std::map<std::string, RunTimeLimit> RunTimeLimits(const std::vector<StoredQueue>& queues);

}  // namespace lockstep::control
