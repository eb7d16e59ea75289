#include "trainer-runtime/cmd/devices/gpu_watch.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "trainer-runtime/devices/nvml.h"
#include "trainer-runtime/telemetry/metrics.h"

namespace lockstep::runtime {

struct GpuWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_asked_to_end = false;
  bool has_ended = false;
  Logger* logger = nullptr;  // null once the watch is gone
  std::vector<GpuUse> uses;
  TimePoint read_at{};

  // Takes over a reading, and says once what is missing in it. False: it is to be the last one.
  bool Take(GpuReading reading, Duration interval) {
    std::unique_lock<std::mutex> lock(mutex);
    uses = std::move(reading.uses);
    read_at = SteadyNow();
    const bool is_new = !std::exchange(was_told, !reading.problem.ok()) && was_told;
    if (is_new && logger != nullptr) {
      logger->Warn("the usage of a GPU cannot be read, so /metrics has no series for this GPU",
                   {{"error", reading.problem.error().ToString()}});
    }
    changed.wait_for(lock, interval, [this] { return is_asked_to_end; });
    return !is_asked_to_end;
  }

  void End() {
    const std::lock_guard<std::mutex> lock(mutex);
    has_ended = true;
    changed.notify_all();
  }

 private:
  bool was_told = false;  // what is missing
};

GpuWatch::GpuWatch(GpuWatchOptions options, Logger* logger)
    : shared_(std::make_shared<Shared>()),
      stale_after_(options.stale_after),
      patience_(options.patience) {
  shared_->logger = logger;
  std::thread([shared = shared_,
               library = std::move(options.nvml_library),
               interval = options.interval] {
    {
      // A library that refuses was told of when devices were listed.
      const Result<GpuUseReader> reader = OpenGpuUse(library);
      while (reader.ok() && *reader != nullptr && shared->Take((*reader)(), interval)) {
      }
    }
    shared->End();
  }).detach();
}

GpuWatch::~GpuWatch() {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->is_asked_to_end = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, patience_, [this] { return shared_->has_ended; });
  shared_->logger = nullptr;
}

std::string GpuWatch::Page() const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  const bool is_fresh = SteadyNow() - shared_->read_at < stale_after_;
  return is_fresh ? RenderGpuPage(shared_->uses) : std::string();
}

}  // namespace lockstep::runtime
