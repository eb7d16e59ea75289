#include "trainer-runtime/strategy/testing/fake_gpu_engine.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "trainer-runtime/collectives/nccl/cuda_device.h"

namespace lockstep::runtime {
namespace {

constexpr float kStale = std::numeric_limits<float>::quiet_NaN();

// Longer than a thread takes to hand a bucket over: who does not wait for the stream has the old
// values.
constexpr std::chrono::microseconds kDelay{200};

using LaunchHostFunction = int (*)(void* stream, void (*function)(void*), void* data);

// Gradients on a GPU of the driver's double, whose memory is the host's, and their streams: a
// second one for what is done with their sums.
class GpuGradients final : public FakeDeviceGradients {
 public:
  static Result<std::unique_ptr<GpuGradients>> Make(std::shared_ptr<const CudaDevice> device,
                                                    const std::string& driver,
                                                    std::size_t count) {
    LOCKSTEP_ASSIGN_OR_RETURN(const SharedObject library, SharedObject::Open(driver));
    std::unique_ptr<GpuGradients> made(new GpuGradients(std::move(device), count));
    const CudaFunctions& cuda = made->device_->functions();
    const CudaDeviceKeeper keeper(*made->device_);
    LOCKSTEP_RETURN_IF_ERROR(made->device_->MakeCurrent());
    const std::size_t byte_count = std::max<std::size_t>(1, count * sizeof(float));
    const bool is_made =
        cuda.memory_allocate(&made->address_, byte_count) == 0 &&
        cuda.memory_allocate(&made->sums_, kStepSumCount * sizeof(double)) == 0 &&
        cuda.stream_create(&made->stream_, 1) == 0 && cuda.stream_create(&made->after_, 1) == 0 &&
        cuda.event_create(&made->event_, 0) == 0 && cuda.event_create(&made->sums_event_, 0) == 0 &&
        library.Find("cuLaunchHostFunc", &made->launch_);
    if (!is_made) {
      return Error(ErrorCode::kUnavailable, driver + " is not the double of a driver");
    }
    std::ranges::fill(made->values(), kStale);
    return made;
  }

  GpuGradients(const GpuGradients&) = delete;
  GpuGradients& operator=(const GpuGradients&) = delete;

  ~GpuGradients() override {
    const CudaFunctions& cuda = device_->functions();
    for (const CudaStreamHandle stream : {stream_, after_}) {
      if (stream != nullptr) {
        cuda.stream_destroy(stream);
      }
    }
    marks_.insert(marks_.end(), {event_, sums_event_});
    for (const CudaEventHandle event : marks_) {
      if (event != nullptr) {
        cuda.event_destroy(event);
      }
    }
    for (const CudaAddress address : {address_, sums_}) {
      if (address != 0) {
        cuda.memory_free(address);
      }
    }
  }

  std::string DeviceName() const override { return "GPU " + std::to_string(device_->number()); }

  EngineBuffer Buffer() const override {
    return {.address = reinterpret_cast<void*>(static_cast<uintptr_t>(address_)),
            .byte_count = count_ * sizeof(float),
            .memory = MemoryKind::kCuda,
            .device = device_->number()};
  }

  // When the stream comes to it.
  void Write(std::size_t offset, std::span<const float> made) override {
    launch_(stream_,
            WriteLate,
            new LateWrite{values().subspan(offset, made.size()), {made.begin(), made.end()}});
  }

  void* Mark(std::size_t number) override {
    while (marks_.size() <= number) {
      const CudaDeviceKeeper keeper(*device_);
      LOCKSTEP_CHECK(device_->MakeCurrent().ok(), "no device");
      device_->functions().event_create(&marks_.emplace_back(), 0);
    }
    return Record(marks_[number]);
  }

  std::span<float> Await() override {
    AwaitStream(stream_);
    return values();
  }

  DeviceSums Sums() const override {
    return {.numbers = {.address = reinterpret_cast<void*>(static_cast<uintptr_t>(sums_)),
                        .byte_count = kStepSumCount * sizeof(double),
                        .type = NumberType::kFloat64,
                        .memory = MemoryKind::kCuda,
                        .device = device_->number()},
            .made = sums_event_,
            .after = after_};
  }

  // When the stream comes to it.
  void WriteSums(const StepResult& made) override {
    launch_(stream_,
            WriteSumsLate,
            new LateSums{static_cast<double*>(Sums().numbers.address),
                         {made.loss_sum,
                          static_cast<double>(made.correct_count),
                          static_cast<double>(made.overflow_count)}});
    Record(sums_event_);
  }

  // When the second stream comes to it, which is behind all that the first one has been given.
  void Measure() override {
    device_->functions().stream_wait(after_, Record(event_), 0);
    launch_(after_, MeasureLate, this);
  }

  // What is there once the second stream is done.
  StepResult TakeStep() override {
    AwaitStream(after_);
    const auto* const found = static_cast<const double*>(Sums().numbers.address);
    return {.loss_sum = found[0],
            .correct_count = static_cast<int64_t>(found[1]),
            .overflow_count = static_cast<int64_t>(found[2]),
            .gradient_length = length_};
  }

 private:
  struct LateWrite {
    std::span<float> place;
    std::vector<float> made;
  };

  struct LateSums {
    double* place;
    std::array<double, kStepSumCount> made;
  };

  GpuGradients(std::shared_ptr<const CudaDevice> device, std::size_t count)
      : device_(std::move(device)), count_(count) {}

  // Its stream may be writing.
  std::span<float> values() {
    return {reinterpret_cast<float*>(static_cast<uintptr_t>(address_)), count_};
  }

  // Behind all that the first stream has been given.
  CudaEventHandle Record(CudaEventHandle event) const {
    const CudaDeviceKeeper keeper(*device_);
    LOCKSTEP_CHECK(device_->MakeCurrent().ok(), "no device");
    device_->functions().event_record(event, stream_);
    return event;
  }

  void AwaitStream(CudaStreamHandle stream) const {
    while (device_->functions().stream_query(stream) != 0) {
      std::this_thread::sleep_for(kDelay / 4);
    }
  }

  static void WriteSumsLate(void* data) {
    const std::unique_ptr<LateSums> late(static_cast<LateSums*>(data));
    std::this_thread::sleep_for(kDelay);
    std::ranges::copy(late->made, late->place);
  }

  static void MeasureLate(void* data) {
    auto* const own = static_cast<GpuGradients*>(data);
    own->length_ = LengthOf(own->values());
  }

  static void WriteLate(void* data) {
    const std::unique_ptr<LateWrite> late(static_cast<LateWrite*>(data));
    std::this_thread::sleep_for(kDelay);
    std::ranges::copy(late->made, late->place.begin());
  }

  std::shared_ptr<const CudaDevice> device_;  // shared: memory is nothing without its context
  std::size_t count_;
  CudaAddress address_ = 0;
  CudaAddress sums_ = 0;
  CudaStreamHandle stream_ = nullptr;
  CudaStreamHandle after_ = nullptr;
  CudaEventHandle event_ = nullptr;
  CudaEventHandle sums_event_ = nullptr;
  std::vector<CudaEventHandle> marks_;
  LaunchHostFunction launch_ = nullptr;
  double length_ = 0;  // the second stream's
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeFakeGpuEngine(std::unique_ptr<Engine> inner,
                                                  int device,
                                                  const std::string& driver,
                                                  FakeTelling telling) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDevice> opened,
                            CudaDevice::Open(device, driver));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<GpuGradients> gradients,
      GpuGradients::Make(std::move(opened), driver, inner->Gradients().size()));
  return MakeFakeDeviceEngine(std::move(inner), std::move(gradients), telling);
}

}  // namespace lockstep::runtime
