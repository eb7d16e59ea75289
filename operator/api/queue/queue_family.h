#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/api/queue/training_queue.h"

namespace lockstep::control {

// What TrainingQueues of one file say of each other. Each for itself may be stored; what comes of
// them together is seen here before anybody waits for it.

struct QueueRemark {
  std::size_t queue = 0;  // index of whose it is
  std::string field;
  std::string message;
  bool is_refused = false;  // false: the API server takes it, and jobs are served
};

// Queues that are below themselves, which are never served; promises beyond the nominal amounts of
// a parent in the file; limits of lending above what there is to lend. Queues that are not in the
// file are not thought about.
std::vector<QueueRemark> RemarksOn(const std::vector<TrainingQueue>& queues);

// "b, c, a": the way up from the queue a to itself, by the parents that `find` gives (null: there
// is no such queue); empty: it does not lead there.
std::string WayToItself(const TrainingQueue& queue,
                        const std::function<const TrainingQueue*(const std::string&)>& find);

// The queues of the file below `name`, in file order.
std::vector<std::string> QueuesBelow(const std::vector<TrainingQueue>& queues,
                                     const std::string& name);

}  // namespace lockstep::control
