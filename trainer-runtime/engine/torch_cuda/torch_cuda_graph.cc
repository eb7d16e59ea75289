#include "trainer-runtime/engine/torch_cuda/torch_cuda_graph.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <string>
#include <thread>
#include <utility>

#include <c10/cuda/CUDACachingAllocator.h>

#include "trainer-runtime/engine/torch/torch_calls.h"

// What at::cuda::CUDAGraph does, from CUDA's runtime library and LibTorch's allocator: that class
// is in LibTorch's CUDA half, which this program loads when a GPU was found, and cannot link.

namespace lockstep::runtime {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

Error Failure(const std::string& what, cudaError_t code) {
  static_cast<void>(cudaGetLastError());  // told here, and by nobody who asks later
  return Error(ErrorCode::kInternal, what + ": " + cudaGetErrorString(code));
}

class TorchCudaGraph final : public DeviceGraph {
 public:
  explicit TorchCudaGraph(c10::cuda::CUDAStream stream) : stream_(stream) {
    allocator::beginAllocateToPool(stream_.device_index(),
                                   Pool(),
                                   [raw = stream_.stream()](cudaStream_t of) { return of == raw; });
  }

  TorchCudaGraph(const TorchCudaGraph&) = delete;
  TorchCudaGraph& operator=(const TorchCudaGraph&) = delete;

  // Launches in flight end by themselves, before whatever the stream is given next.
  ~TorchCudaGraph() override {
    EndAllocation();
    if (executable_ != nullptr) {
      static_cast<void>(cudaGraphExecDestroy(executable_));
    }
    allocator::releasePool(stream_.device_index(), Pool());
  }

  // Once.
  Status Capture(const std::function<Status()>& work) {
    // Calls of other threads, which work on other devices, are their own affair.
    const cudaError_t begun =
        cudaStreamBeginCapture(stream_.stream(), cudaStreamCaptureModeThreadLocal);
    if (begun != cudaSuccess) {
      return Failure("cudaStreamBeginCapture", begun);
    }
    allocator::markCaptureBegin(stream_.device_index());
    const Status taken = WithTorch(work);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_.stream(), &graph);
    allocator::markCaptureEnd(stream_.device_index());
    EndAllocation();
    if (!taken.ok()) {
      static_cast<void>(graph != nullptr ? cudaGraphDestroy(graph) : cudaSuccess);
      static_cast<void>(cudaGetLastError());
      return taken;
    }
    if (ended != cudaSuccess) {
      return Failure("cudaStreamEndCapture", ended);
    }
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    if (made != cudaSuccess) {
      executable_ = nullptr;
      return Failure("cudaGraphInstantiate", made);
    }
    return OkStatus();
  }

  Status Launch() override {
    const cudaError_t launched = cudaGraphLaunch(executable_, stream_.stream());
    return launched == cudaSuccess ? OkStatus() : Failure("cudaGraphLaunch", launched);
  }

 private:
  // Unlike that of any other graph that there is. Those that LibTorch numbers itself are not used
  // beside these.
  c10::MempoolId_t Pool() const { return {0, reinterpret_cast<uintptr_t>(this)}; }

  void EndAllocation() {
    if (std::exchange(is_allocating_, false)) {
      allocator::endAllocateToPool(stream_.device_index(), Pool());
    }
  }

  c10::cuda::CUDAStream stream_;
  bool is_allocating_ = true;  // what is put into the stream takes memory from the pool
  cudaGraphExec_t executable_ = nullptr;
};

// A graph that stands in front of its mark until it is let go.
class MarkTrial {
 public:
  MarkTrial(cudaStream_t stream, cudaStream_t other) : stream_(stream), other_(other) {}

  MarkTrial(const MarkTrial&) = delete;
  MarkTrial& operator=(const MarkTrial&) = delete;

  ~MarkTrial() {
    may_go_.store(true);
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamSynchronize(other_));
    static_cast<void>(executable_ != nullptr ? cudaGraphExecDestroy(executable_) : cudaSuccess);
    static_cast<void>(graph_ != nullptr ? cudaGraphDestroy(graph_) : cudaSuccess);
    static_cast<void>(mark_ != nullptr ? cudaEventDestroy(mark_) : cudaSuccess);
    static_cast<void>(passed_ != nullptr ? cudaEventDestroy(passed_) : cudaSuccess);
    static_cast<void>(cudaGetLastError());  // whatever was refused is told by Run alone
  }

  // Once.
  bool Run() {
    // How long a wait that finds the older record has to show it. Choice: events take microseconds.
    constexpr std::chrono::milliseconds kPatience{5};
    if (!Launch() || cudaEventQuery(mark_) != cudaErrorNotReady ||
        cudaStreamWaitEvent(other_, mark_, 0) != cudaSuccess ||
        cudaEventRecord(passed_, other_) != cudaSuccess) {
      return false;
    }
    const auto end = std::chrono::steady_clock::now() + kPatience;
    bool waits = true;
    while (waits && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      waits = cudaEventQuery(passed_) == cudaErrorNotReady;
    }
    return waits;
  }

 private:
  static void AwaitHost(void* trial) {
    while (!static_cast<MarkTrial*>(trial)->may_go_.load()) {
      std::this_thread::yield();
    }
  }

  // The mark has an older record, and the graph is launched behind it.
  bool Launch() {
    if (cudaEventCreateWithFlags(&mark_, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventCreateWithFlags(&passed_, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventRecord(mark_, stream_) != cudaSuccess ||
        cudaStreamSynchronize(stream_) != cudaSuccess ||
        cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
      return false;
    }
    const bool is_taken =
        cudaLaunchHostFunc(stream_, AwaitHost, this) == cudaSuccess &&
        cudaEventRecordWithFlags(mark_, stream_, cudaEventRecordExternal) == cudaSuccess;
    return cudaStreamEndCapture(stream_, &graph_) == cudaSuccess && is_taken &&
           cudaGraphInstantiate(&executable_, graph_, 0) == cudaSuccess &&
           cudaGraphLaunch(executable_, stream_) == cudaSuccess;
  }

  cudaStream_t stream_;
  cudaStream_t other_;
  std::atomic<bool> may_go_{false};
  cudaEvent_t mark_ = nullptr;
  cudaEvent_t passed_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

bool CudaGraphMarksAtLaunch(c10::cuda::CUDAStream stream, c10::cuda::CUDAStream other) {
  return MarkTrial(stream.stream(), other.stream()).Run();
}

Result<std::unique_ptr<DeviceGraph>> RecordCudaGraph(c10::cuda::CUDAStream stream,
                                                     const std::function<Status()>& work) {
  auto graph = std::make_unique<TorchCudaGraph>(stream);
  LOCKSTEP_RETURN_IF_ERROR(graph->Capture(work));
  return std::unique_ptr<DeviceGraph>(std::move(graph));
}

}  // namespace lockstep::runtime
