#pragma once

#include <mutex>

namespace prometheus {
class Counter;
class Gauge;
class Registry;
}  // namespace prometheus

namespace lockstep::control {

// What this process uses, under the names of Prometheus' own client libraries. Source: /proc/self.
// Thread: any.
class ProcessMetrics {
 public:
  // The registry outlives this.
  explicit ProcessMetrics(prometheus::Registry* registry);

  // Reads all of it anew.
  void Refresh();

 private:
  std::mutex mutex_;  // two scrapes at once: the CPU counter is raised by one of them
  prometheus::Counter& cpu_;
  prometheus::Gauge& resident_;
  prometheus::Gauge& virtual_bytes_;
  prometheus::Gauge& start_time_;
  prometheus::Gauge& open_fds_;
  prometheus::Gauge& max_fds_;
};

}  // namespace lockstep::control
