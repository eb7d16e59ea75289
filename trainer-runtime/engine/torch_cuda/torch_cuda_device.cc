#include "trainer-runtime/engine/torch_cuda/torch_cuda_device.h"

#include <cstring>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include "common/contract/environment/gpu_name.h"
#include "trainer-runtime/engine/cuda/update_kernels.h"
#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/engine/torch_cuda/torch_cuda_graph.h"
#include "trainer-runtime/engine/torch_cuda/torch_cuda_pinning.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kCudaHalf = "libtorch_cuda.so";

std::string WordsOf(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

std::string NameOf(const cudaDeviceProp& properties) {
  GpuUuid bytes;
  static_assert(sizeof(bytes) == sizeof(properties.uuid.bytes));
  std::memcpy(bytes.data(), properties.uuid.bytes, sizeof(bytes));
  return FormatGpuName(bytes, properties.name);
}

// Which of the visible devices is meant. Errors: kNotFound.
Result<int> FindDevice(const std::string& uuid) {
  const std::string none = "LibTorch " TORCH_VERSION " for CUDA: no CUDA device is visible: ";
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess) {
    return Error(ErrorCode::kNotFound, none + WordsOf(counted));
  }
  if (count == 0) {
    return Error(ErrorCode::kNotFound, none + "the driver shows no device to this process");
  }
  std::string visible;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    const cudaError_t asked = cudaGetDeviceProperties(&properties, index);
    if (asked != cudaSuccess) {
      return Error(ErrorCode::kNotFound,
                   "CUDA device " + std::to_string(index) + " cannot be read: " + WordsOf(asked));
    }
    const std::string found = NameOf(properties);
    if (uuid.empty() || IsSameGpu(uuid, found)) {
      return index;
    }
    visible += (visible.empty() ? "" : ", ") + found;
  }
  const bool is_slice = uuid.starts_with("MIG-");
  return Error(
      ErrorCode::kNotFound,
      "CUDA does not see " + uuid + " here; it sees only " + visible +
          (is_slice ? ". CUDA shows only one slice to a process: start one process for each slice"
                    : ""));
}

class TorchCudaDevice final : public TorchDevice, GraphRecorder {
 public:
  TorchCudaDevice(int index, std::string name)
      : index_(index),
        name_(std::move(name)),
        stream_(MakeStream(index)),
        after_(MakeStream(index)),
        beside_(MakeStream(index)),
        given_(MakeEvent()),
        copied_(MakeEvent()),
        pinning_(MakeCudaPinning()) {}

  TorchCudaDevice(const TorchCudaDevice&) = delete;
  TorchCudaDevice& operator=(const TorchCudaDevice&) = delete;

  ~TorchCudaDevice() override {
    static_cast<void>(cudaEventDestroy(given_));
    static_cast<void>(cudaEventDestroy(copied_));
    for (const cudaEvent_t mark : marks_) {
      static_cast<void>(cudaEventDestroy(mark));
    }
  }

  at::Device place() const override { return {at::kCUDA, static_cast<c10::DeviceIndex>(index_)}; }

  bool IsTheHostsMemory() const override { return false; }

  MemoryKind memory() const override { return MemoryKind::kCuda; }

  std::string Describe() const override {
    return "CUDA device " + std::to_string(index_) + ", " + name_;
  }

  // A stream of its own: CUDA's default one cannot be captured.
  std::shared_ptr<void> Enter() override {
    return std::make_shared<c10::cuda::CUDAStreamGuard>(stream_);
  }

  void* stream_after() const override { return after_.stream(); }

  std::shared_ptr<void> EnterAfter() override {
    C10_CUDA_CHECK(cudaEventRecord(given_, stream_.stream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(after_.stream(), given_, 0));
    return std::make_shared<c10::cuda::CUDAStreamGuard>(after_);
  }

  // A cudaEvent_t is a CUevent. Graphs hold these, and are gone before.
  void* mark(std::size_t number) override {
    while (marks_.size() <= number) {
      marks_.push_back(MakeEvent());
    }
    return marks_[number];
  }

  // External: a node of the graph that records the event at each launch, for streams outside of it.
  // Without, it would be an order within the graph, and waiting for it a part of the capture.
  void Mark(std::size_t number) override {
    auto* const event = static_cast<cudaEvent_t>(mark(number));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream_.stream(), &status));
    C10_CUDA_CHECK(cudaEventRecordWithFlags(event,
                                            stream_.stream(),
                                            status == cudaStreamCaptureStatusActive
                                                ? cudaEventRecordExternal
                                                : cudaEventRecordDefault));
  }

  bool MarksAtLaunch() override {
    if (!marks_at_launch_.has_value()) {
      marks_at_launch_ = CudaGraphMarksAtLaunch(stream_, beside_);
    }
    return *marks_at_launch_;
  }

  void CopyBeside(const at::Tensor& to, const at::Tensor& from, std::size_t behind) override {
    C10_CUDA_CHECK(
        cudaStreamWaitEvent(beside_.stream(), static_cast<cudaEvent_t>(mark(behind)), 0));
    const c10::cuda::CUDAStreamGuard guard(beside_);
    to.copy_(from, /*non_blocking=*/true);
    C10_CUDA_CHECK(cudaEventRecord(copied_, beside_.stream()));
  }

  void AwaitCopies() override { C10_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), copied_, 0)); }

  void FinishCopies() override { C10_CUDA_CHECK(cudaEventSynchronize(copied_)); }

  Status Update(const OptimizerSpec& optimizer,
                int64_t update_number,
                const DeviceState& state) override {
    return ToStatus(std::visit(
        [&](const auto& factors) {
          return runtime::Update(factors, BuffersOf(state), stream_.stream());
        },
        MakeUpdateFactors(optimizer, update_number)));
  }

  Status UpdateGuarded(const OptimizerSpec& optimizer,
                       const DeviceRecords& records,
                       const DeviceState& state) override {
    const GuardedRecords addresses{static_cast<const GuardedStep*>(records.step.data_ptr()),
                                   static_cast<StepNumbers*>(records.numbers.data_ptr())};
    return ToStatus(std::visit(
        [&](const auto& kind) {
          return runtime::UpdateGuarded(kind, addresses, BuffersOf(state), stream_.stream());
        },
        MakeUpdateFactors(optimizer, /*update_number=*/1)));  // for its kind alone
  }

  HostPinning* pinning() override { return pinning_.get(); }

  GraphRecorder* recorder() override { return this; }

 private:
  Result<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work) override {
    return RecordCudaGraph(stream_, work);
  }

  static c10::cuda::CUDAStream MakeStream(int index) {
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/false,
                                        static_cast<c10::DeviceIndex>(index));
  }

  cudaEvent_t MakeEvent() const {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index_));
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }

  static Status ToStatus(int code) {
    return code == cudaSuccess
               ? OkStatus()
               : Status(Error(ErrorCode::kInternal, "the update failed in CUDA: " + WordsOf(code)));
  }

  int index_;
  std::string name_;
  c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAStream after_;
  c10::cuda::CUDAStream beside_;
  cudaEvent_t given_;   // of what stream_ has been given
  cudaEvent_t copied_;  // of the copies in beside_
  std::optional<bool> marks_at_launch_;
  std::vector<cudaEvent_t> marks_;
  std::unique_ptr<HostPinning> pinning_;
};

// Products in float32 are float32's, and those of rounded numbers run on tensor cores, which hold
// both kinds of 16 bits whole. Of the process: all its engines are of one model.
void ChooseProducts(Precision precision) {
  const bool are_rounded = precision != Precision::kFloat32;
  at::globalContext().setAllowTF32CuBLAS(are_rounded);
  at::globalContext().setAllowTF32CuDNN(are_rounded);
}

}  // namespace

Result<std::unique_ptr<TorchDevice>> MakeCudaDevice(const std::string& uuid, Precision precision) {
  LOCKSTEP_ASSIGN_OR_RETURN(const int index, FindDevice(uuid));
  if (::dlopen(kCudaHalf, RTLD_NOW | RTLD_NODELETE) == nullptr) {
    const char* const reason = ::dlerror();
    return Error(ErrorCode::kNotFound,
                 std::string("cannot load LibTorch's CUDA library: ") +
                     (reason != nullptr ? reason : kCudaHalf));
  }
  ChooseProducts(precision);
  cudaDeviceProp properties;
  const cudaError_t asked = cudaGetDeviceProperties(&properties, index);
  const std::string name = asked == cudaSuccess ? properties.name : WordsOf(asked);
  return std::unique_ptr<TorchDevice>(std::make_unique<TorchCudaDevice>(index, name));
}

}  // namespace lockstep::runtime
