#include "trainer-runtime/strategy/testing/fake_gpu_engine.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "trainer-runtime/collectives/nccl/cuda_device.h"
#include "trainer-runtime/engine/testing/fake_device_engine.h"

namespace lockstep::runtime {
namespace {

constexpr float kStale = std::numeric_limits<float>::quiet_NaN();

// Longer than a thread takes to hand a bucket over: who does not wait for the stream has the old
// values.
constexpr std::chrono::microseconds kDelay{200};

using LaunchHostFunction = int (*)(void* stream, void (*function)(void*), void* data);

// Gradients on a GPU of the driver's double, whose memory is the host's, and their stream.
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
    const bool is_made = cuda.memory_allocate(&made->address_, byte_count) == 0 &&
                         cuda.stream_create(&made->stream_, 1) == 0 &&
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
    if (stream_ != nullptr) {
      cuda.stream_destroy(stream_);
    }
    if (address_ != 0) {
      cuda.memory_free(address_);
    }
  }

  std::string DeviceName() const override { return "GPU " + std::to_string(device_->number()); }

  EngineBuffer Buffer() const override {
    return {.address = reinterpret_cast<void*>(static_cast<uintptr_t>(address_)),
            .byte_count = count_ * sizeof(float),
            .memory = MemoryKind::kCuda,
            .device = device_->number(),
            .stream = stream_};
  }

  // When the stream comes to it.
  void Write(std::size_t offset, std::span<const float> made) override {
    launch_(stream_,
            WriteLate,
            new LateWrite{values().subspan(offset, made.size()), {made.begin(), made.end()}});
  }

  std::span<float> Await() override {
    while (device_->functions().stream_query(stream_) != 0) {
      std::this_thread::sleep_for(kDelay / 4);
    }
    return values();
  }

 private:
  struct LateWrite {
    std::span<float> place;
    std::vector<float> made;
  };

  GpuGradients(std::shared_ptr<const CudaDevice> device, std::size_t count)
      : device_(std::move(device)), count_(count) {}

  // Its stream may be writing.
  std::span<float> values() {
    return {reinterpret_cast<float*>(static_cast<uintptr_t>(address_)), count_};
  }

  static void WriteLate(void* data) {
    const std::unique_ptr<LateWrite> late(static_cast<LateWrite*>(data));
    std::this_thread::sleep_for(kDelay);
    std::ranges::copy(late->made, late->place.begin());
  }

  std::shared_ptr<const CudaDevice> device_;  // shared: memory is nothing without its context
  std::size_t count_;
  CudaAddress address_ = 0;
  CudaStreamHandle stream_ = nullptr;
  LaunchHostFunction launch_ = nullptr;
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
  return MakeFakeDeviceEngine(std::move(inner), std::move(gradients));
}

}  // namespace lockstep::runtime
