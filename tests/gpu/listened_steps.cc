#include "tests/gpu/listened_steps.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "common/base/stopwatch.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/nccl/cuda_device.h"

namespace lockstep::gpu {
namespace {

using runtime::CudaAddress;
using runtime::CudaDevice;
using runtime::CudaStage;
using runtime::Engine;
using runtime::EngineBuffer;
using runtime::EnginePart;
using runtime::MemoryKind;
using runtime::StepOptions;

// Copies buckets to the host, wherever the engine has them.
class Copies {
 public:
  static Result<Copies> Make(const EngineBuffer& gradients) {
    Copies copies(gradients);
    if (gradients.memory == MemoryKind::kCuda) {
      LOCKSTEP_ASSIGN_OR_RETURN(auto device, CudaDevice::Open(gradients.device));
      LOCKSTEP_ASSIGN_OR_RETURN(copies.stage_, CudaStage::Make(device, gradients.byte_count));
    }
    return copies;
  }

  void Take(int64_t offset, int64_t count, void* made) {
    if (!status_.ok()) {
      return;
    }
    const auto begin = static_cast<std::size_t>(offset) * sizeof(float);
    const auto size = static_cast<std::size_t>(count) * sizeof(float);
    const auto* const from = static_cast<const std::byte*>(gradients_.address) + begin;
    if (stage_ == nullptr) {
      std::memcpy(reinterpret_cast<std::byte*>(on_host_.data()) + begin, from, size);
      return;
    }
    const CudaDevice& device = stage_->device();
    const runtime::CudaDeviceKeeper keeper(device);
    status_ = device.MakeCurrent();
    if (status_.ok()) {
      status_ = stage_->WaitForEvent(made);
    }
    if (status_.ok()) {
      status_ = device.Check(
          device.functions().copy_to_host(
              stage_->host() + begin, reinterpret_cast<CudaAddress>(from), size, stage_->stream()),
          "copy a bucket");
    }
  }

  // What was copied, once all is.
  Result<std::span<const float>> Await() {
    LOCKSTEP_RETURN_IF_ERROR(status_);
    if (stage_ == nullptr) {
      return std::span<const float>(on_host_);
    }
    for (;;) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool is_idle, stage_->IsIdle());
      if (is_idle) {
        return std::span(reinterpret_cast<const float*>(stage_->host()), on_host_.size());
      }
      std::this_thread::yield();
    }
  }

 private:
  explicit Copies(const EngineBuffer& gradients)
      : gradients_(gradients), on_host_(gradients.byte_count / sizeof(float)) {}

  EngineBuffer gradients_;
  std::unique_ptr<CudaStage> stage_;  // null: they are in the host's memory
  std::vector<float> on_host_;
  Status status_;
};

// Where each parameter begins, from the last to the first; every second step in fewer buckets.
std::vector<int64_t> PointsOf(Engine& engine, bool is_fewer) {
  std::vector<int64_t> points;
  int64_t begin = 0;
  for (const runtime::TensorView& tensor : engine.Tensors()) {
    if (tensor.kind == runtime::TensorKind::kParameter) {
      points.push_back(begin);
      begin += static_cast<int64_t>(tensor.data.size());
    }
  }
  std::ranges::reverse(points);
  if (is_fewer) {
    points.erase(points.begin());
  }
  return points;
}

// How many of the buckets that were copied are not the step's own.
Result<std::size_t> CountLate(Engine& engine, Copies& copies, std::span<const int64_t> points) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::span<const float> copied, copies.Await());
  LOCKSTEP_RETURN_IF_ERROR(engine.BringToHost(EnginePart::kGradients));
  const std::span<const float> gradients = engine.Gradients();
  std::size_t late_count = 0;
  std::size_t end = gradients.size();
  for (const int64_t point : points) {
    const auto begin = static_cast<std::size_t>(point);
    late_count += std::ranges::equal(copied.subspan(begin, end - begin),
                                     gradients.subspan(begin, end - begin))
                      ? 0
                      : 1;
    end = begin;
  }
  return late_count;
}

}  // namespace

Result<ListenedSteps> TakeListenedSteps(Engine& engine,
                                        Listening listening,
                                        std::size_t step_count,
                                        const std::function<runtime::Batch()>& next_batch) {
  const EngineBuffer gradients = engine.GradientBuffer();
  LOCKSTEP_ASSIGN_OR_RETURN(Copies copies, Copies::Make(gradients));
  const std::vector<int64_t> all = PointsOf(engine, /*is_fewer=*/false);
  const std::vector<int64_t> fewer = PointsOf(engine, /*is_fewer=*/true);
  ListenedSteps taken;
  double seconds = 0;
  for (std::size_t step = 0; step < step_count; ++step) {
    const runtime::Batch batch = next_batch();
    const auto& points = listening == Listening::kOneByOne && step % 2 == 1 ? fewer : all;
    StepOptions options{.gradient_scale = 1.0 / static_cast<double>(batch.sample_count),
                        .ready_at = points,
                        .is_awaited = gradients.memory == MemoryKind::kHost};
    options.on_ready = [&](int64_t offset, int64_t count, void* made) {
      copies.Take(offset, count, made);
    };
    Stopwatch watch;
    LOCKSTEP_RETURN_IF_ERROR(engine.ComputeGradients(batch, options));
    if (!options.is_awaited) {
      LOCKSTEP_RETURN_IF_ERROR(engine.Measure());
      LOCKSTEP_RETURN_IF_ERROR(engine.TakeStep());
    }
    seconds += ToSeconds(watch.Lap());
    LOCKSTEP_ASSIGN_OR_RETURN(const std::size_t late, CountLate(engine, copies, points));
    taken.late_count += late;
    taken.bucket_count += points.size();
    LOCKSTEP_RETURN_IF_ERROR(engine.ApplyUpdate(static_cast<int64_t>(step) + 1));
  }
  taken.ms_per_step = seconds * 1e3 / static_cast<double>(std::max<std::size_t>(1, step_count));
  LOCKSTEP_RETURN_IF_ERROR(engine.BringToHost(EnginePart::kState));
  for (const runtime::TensorView& tensor : engine.Tensors()) {
    taken.parameters.insert(taken.parameters.end(), tensor.data.begin(), tensor.data.end());
  }
  return taken;
}

}  // namespace lockstep::gpu
