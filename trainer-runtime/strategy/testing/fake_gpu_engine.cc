#include "trainer-runtime/strategy/testing/fake_gpu_engine.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
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
class GpuGradients {
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
    const bool is_made = cuda.memory_allocate(&made->address_, byte_count) == 0 &&
                         cuda.memory_allocate(&made->sums_, kStepSumCount * sizeof(double)) == 0 &&
                         cuda.stream_create(&made->stream_, 1) == 0 &&
                         cuda.stream_create(&made->after_, 1) == 0 &&
                         cuda.event_create(&made->event_, 0) == 0 &&
                         library.Find("cuLaunchHostFunc", &made->launch_);
    if (!is_made) {
      return Error(ErrorCode::kUnavailable, driver + " is not the double of a driver");
    }
    std::ranges::fill(made->values(), kStale);
    return made;
  }

  GpuGradients(const GpuGradients&) = delete;
  GpuGradients& operator=(const GpuGradients&) = delete;

  ~GpuGradients() {
    const CudaFunctions& cuda = device_->functions();
    for (const CudaStreamHandle stream : {stream_, after_}) {
      if (stream != nullptr) {
        cuda.stream_destroy(stream);
      }
    }
    if (event_ != nullptr) {
      cuda.event_destroy(event_);
    }
    for (const CudaAddress address : {address_, sums_}) {
      if (address != 0) {
        cuda.memory_free(address);
      }
    }
  }

  EngineBuffer buffer() const {
    return {.address = reinterpret_cast<void*>(static_cast<uintptr_t>(address_)),
            .byte_count = count_ * sizeof(float),
            .memory = MemoryKind::kCuda,
            .device = device_->number(),
            .stream = stream_};
  }

  DeviceSums sums() const {
    return {.numbers = {.address = reinterpret_cast<void*>(static_cast<uintptr_t>(sums_)),
                        .byte_count = kStepSumCount * sizeof(double),
                        .type = NumberType::kFloat64,
                        .memory = MemoryKind::kCuda,
                        .device = device_->number(),
                        .stream = stream_},
            .after = after_};
  }

  // After Await(): before, its stream may be writing.
  std::span<float> values() {
    return {reinterpret_cast<float*>(static_cast<uintptr_t>(address_)), count_};
  }

  // Puts these values at `offset` when the stream comes to it.
  void WriteLater(std::size_t offset, std::span<const float> made) {
    launch_(stream_,
            Write,
            new LateWrite{values().subspan(offset, made.size()), {made.begin(), made.end()}});
  }

  void WriteSumsLater(const StepResult& made) {
    launch_(stream_,
            WriteSums,
            new LateSums{static_cast<double*>(sums().numbers.address),
                         {made.loss_sum,
                          static_cast<double>(made.correct_count),
                          static_cast<double>(made.overflow_count)}});
  }

  // Takes the length when the second stream comes to it, which is behind all that the first one has
  // been given.
  void MeasureLater() {
    const CudaFunctions& cuda = device_->functions();
    const CudaDeviceKeeper keeper(*device_);
    LOCKSTEP_CHECK(device_->MakeCurrent().ok(), "no device");
    cuda.event_record(event_, stream_);
    cuda.stream_wait(after_, event_, 0);
    launch_(
        after_, [](void* own) { static_cast<GpuGradients*>(own)->Measure(); }, this);
  }

  // What is there now, once the second stream is done.
  StepResult Take() {
    AwaitStream(after_);
    const auto* const found = static_cast<const double*>(sums().numbers.address);
    return {.loss_sum = found[0],
            .correct_count = static_cast<int64_t>(found[1]),
            .overflow_count = static_cast<int64_t>(found[2]),
            .gradient_length = length_};
  }

  void Await() const { AwaitStream(stream_); }

 private:
  struct LateWrite {
    std::span<float> place;
    std::vector<float> made;
  };

  GpuGradients(std::shared_ptr<const CudaDevice> device, std::size_t count)
      : device_(std::move(device)), count_(count) {}

  struct LateSums {
    double* place;
    std::array<double, kStepSumCount> made;
  };

  void AwaitStream(CudaStreamHandle stream) const {
    while (device_->functions().stream_query(stream) != 0) {
      std::this_thread::sleep_for(kDelay / 4);
    }
  }

  void Measure() {
    double squares = 0;
    for (const float gradient : values()) {
      squares += static_cast<double>(gradient) * static_cast<double>(gradient);
    }
    length_ = std::sqrt(squares);
  }

  static void WriteSums(void* data) {
    const std::unique_ptr<LateSums> late(static_cast<LateSums*>(data));
    std::this_thread::sleep_for(kDelay);
    std::ranges::copy(late->made, late->place);
  }

  static void Write(void* data) {
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
  LaunchHostFunction launch_ = nullptr;
  double length_ = 0;  // the second stream's
};

class FakeGpuEngine final : public Engine {
 public:
  FakeGpuEngine(std::unique_ptr<Engine> inner, std::unique_ptr<GpuGradients> gradients)
      : inner_(std::move(inner)),
        gradients_(std::move(gradients)),
        image_(inner_->Gradients().size(), kStale),
        lent_(image_) {
    std::size_t value_count = 0;
    for (const TensorView& tensor : inner_->Tensors()) {
      value_count += tensor.data.size();
    }
    state_.assign(value_count, kStale);
  }

  std::string Description() const override {
    return "a double of GPU " + std::to_string(gradients_->buffer().device) + ": " +
           inner_->Description();
  }

  std::vector<TensorView> Tensors() override {
    std::vector<TensorView> views = inner_->Tensors();
    std::span<float> rest = state_;
    for (TensorView& view : views) {
      const std::size_t size = view.data.size();
      view.data = rest.first(size);
      rest = rest.subspan(size);
    }
    return views;
  }

  std::span<float> Gradients() override { return lent_; }

  EngineBuffer GradientBuffer() override { return gradients_->buffer(); }

  DeviceSums Sums() override { return gradients_->sums(); }

  Status Measure() override {
    gradients_->MeasureLater();
    return OkStatus();
  }

  Result<StepResult> TakeStep() override { return gradients_->Take(); }

  Status ScaleGradients(float factor) override {
    gradients_->Await();
    for (float& gradient : gradients_->values()) {
      gradient *= factor;
    }
    return OkStatus();
  }

  Status BringToHost(EnginePart part) override {
    if (part == EnginePart::kGradients) {
      gradients_->Await();
      std::ranges::copy(gradients_->values(), lent_.begin());
      return OkStatus();
    }
    CopyTensors(inner_->Tensors(), Tensors());
    return OkStatus();
  }

  Status BringToDevice(EnginePart part) override {
    if (part == EnginePart::kGradients) {
      gradients_->Await();
      std::ranges::copy(lent_, gradients_->values().begin());
      return OkStatus();
    }
    CopyTensors(Tensors(), inner_->Tensors());
    return OkStatus();
  }

  Status LendGradients(std::span<float> memory) override {
    if (memory.size() != lent_.size()) {
      return Error(ErrorCode::kInvalidArgument, "memory of another size lent");
    }
    lent_ = memory;
    image_ = std::vector<float>();
    return OkStatus();
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    gradients_->Await();
    std::ranges::fill(gradients_->values(), kStale);
    std::ranges::fill(lent_, kStale);
    StepOptions own = options;
    own.on_ready = [&](int64_t offset, int64_t count) {
      const auto begin = static_cast<std::size_t>(offset);
      gradients_->WriteLater(begin,
                             inner_->Gradients().subspan(begin, static_cast<std::size_t>(count)));
      if (options.on_ready) {
        options.on_ready(offset, count);
      }
    };
    own.is_awaited = true;
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult made, inner_->ComputeGradients(batch, own));
    if (options.is_awaited) {
      return made;
    }
    gradients_->WriteSumsLater(made);
    return StepResult{};
  }

  Status ApplyUpdate(int64_t update_number) override {
    gradients_->Await();
    std::ranges::copy(gradients_->values(), inner_->Gradients().begin());
    std::ranges::fill(state_, kStale);
    return inner_->ApplyUpdate(update_number);
  }

  Result<StepResult> Evaluate(const Batch& batch) override { return inner_->Evaluate(batch); }

 private:
  static void CopyTensors(const std::vector<TensorView>& from, const std::vector<TensorView>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::ranges::copy(from[i].data, to[i].data.begin());
    }
  }

  std::unique_ptr<Engine> inner_;
  std::unique_ptr<GpuGradients> gradients_;
  std::vector<float> state_;  // the image: all tensors, one after the other
  std::vector<float> image_;
  std::span<float> lent_;  // the image of the gradients
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeFakeGpuEngine(std::unique_ptr<Engine> inner,
                                                  int device,
                                                  const std::string& driver) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDevice> opened,
                            CudaDevice::Open(device, driver));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<GpuGradients> gradients,
      GpuGradients::Make(std::move(opened), driver, inner->Gradients().size()));
  return std::unique_ptr<Engine>(
      std::make_unique<FakeGpuEngine>(std::move(inner), std::move(gradients)));
}

}  // namespace lockstep::runtime
