#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/base/time.h"
#include "operator/api/queue/training_queue.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace lockstep::control {

// The gauges lockstep_queue_*: how queues stand, for as long as they are there. Thread: one.
class QueueMetrics {
 public:
  // The registry outlives this.
  explicit QueueMetrics(prometheus::Registry* registry);
  ~QueueMetrics();
  QueueMetrics(const QueueMetrics&) = delete;
  QueueMetrics& operator=(const QueueMetrics&) = delete;

  // How they stand at `now`, by their names. A queue that is not among them has no series any more.
  // What it holds none of is told as 0: alerts go by series, and one that is not there has no
  // value.
  void Set(const std::map<std::string, QueueStatus>& queues, WallTime now);

 private:
  struct Families;

  std::unique_ptr<Families> families_;
};

}  // namespace lockstep::control
