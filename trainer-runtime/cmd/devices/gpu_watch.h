#pragma once

#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "trainer-runtime/devices/device_list.h"

namespace lockstep::runtime {

struct GpuWatchOptions {
  std::string nvml_library = kNvmlLibrary;
  Duration interval = std::chrono::seconds(5);  // choice: scrapers ask every 15 s or so
  // What was read so long ago is not shown any more: the driver does not answer. Choice.
  Duration stale_after = std::chrono::seconds(30);
  // How long the destructor waits for a reading under way. Choice: a reading takes milliseconds.
  Duration patience = std::chrono::seconds(1);
};

// Reads every few seconds how this pod's GPUs are used, on a thread of its own, for /metrics. A
// driver that hangs delays neither the answer to a scrape nor the end of the process: what waits
// for it is left behind. Without the management library there is nothing to read, and no thread.
// Thread: any.
class GpuWatch {
 public:
  // The logger outlives the process's threads; a first failure to read is logged there.
  GpuWatch(GpuWatchOptions options, Logger* logger);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // The series of RenderGpuPage, as last read; empty: nothing was, or too long ago.
  std::string Page() const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;  // with the thread, which may be left behind
  Duration stale_after_;
  Duration patience_;
};

}  // namespace lockstep::runtime
