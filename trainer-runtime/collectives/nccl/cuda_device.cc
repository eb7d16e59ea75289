#include "trainer-runtime/collectives/nccl/cuda_device.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "common/contract/environment/gpu_name.h"

namespace lockstep::runtime {
namespace {

constexpr int kCudaSuccess = 0;
constexpr int kCudaOutOfMemory = 2;
constexpr int kCudaNoDevice = 100;
constexpr int kCudaNotReady = 600;
constexpr unsigned int kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
constexpr unsigned int kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr std::size_t kProductBytes = 256;       // as cudaDeviceProp has it

}  // namespace

Result<std::shared_ptr<const CudaDevice>> CudaDevice::Open(int number, const std::string& library) {
  Result<SharedObject> object = SharedObject::Open(library);
  if (!object.ok()) {
    return Error(ErrorCode::kNotFound,
                 "there is no NVIDIA driver here (" + object.error().message() + ")");
  }
  const std::shared_ptr<CudaDevice> device(new CudaDevice(std::move(object).value(), number));
  LOCKSTEP_RETURN_IF_ERROR(device->FindFunctions());
  LOCKSTEP_RETURN_IF_ERROR(device->OpenDevice());
  return std::shared_ptr<const CudaDevice>(device);
}

Status CudaDevice::FindFunctions() {
  CudaFunctions& cuda = functions_;
  const bool has_all = object_.Find("cuInit", &cuda.init) &&
                       object_.Find("cuGetErrorString", &cuda.error_string) &&
                       object_.Find("cuDeviceGetCount", &cuda.device_count) &&
                       object_.Find("cuDeviceGet", &cuda.device_get) &&
                       object_.Find("cuDeviceGetName", &cuda.device_name) &&
                       object_.Find("cuDevicePrimaryCtxRetain", &cuda.context_retain) &&
                       object_.Find("cuDevicePrimaryCtxRelease_v2", &cuda.context_release) &&
                       object_.Find("cuCtxSetCurrent", &cuda.context_set) &&
                       object_.Find("cuCtxGetCurrent", &cuda.context_get) &&
                       object_.Find("cuMemAlloc_v2", &cuda.memory_allocate) &&
                       object_.Find("cuMemFree_v2", &cuda.memory_free) &&
                       object_.Find("cuMemsetD32Async", &cuda.memory_fill) &&
                       object_.Find("cuMemHostAlloc", &cuda.host_allocate) &&
                       object_.Find("cuMemFreeHost", &cuda.host_free) &&
                       object_.Find("cuStreamCreate", &cuda.stream_create) &&
                       object_.Find("cuStreamDestroy_v2", &cuda.stream_destroy) &&
                       object_.Find("cuStreamQuery", &cuda.stream_query) &&
                       object_.Find("cuStreamWaitEvent", &cuda.stream_wait) &&
                       object_.Find("cuEventCreate", &cuda.event_create) &&
                       object_.Find("cuEventDestroy_v2", &cuda.event_destroy) &&
                       object_.Find("cuEventQuery", &cuda.event_query) &&
                       object_.Find("cuEventRecord", &cuda.event_record) &&
                       object_.Find("cuMemcpyHtoDAsync_v2", &cuda.copy_to_device) &&
                       object_.Find("cuMemcpyDtoHAsync_v2", &cuda.copy_to_host);
  // The newer one knows slices of a GPU by their own names.
  const bool has_uuid = object_.Find("cuDeviceGetUuid_v2", &cuda.device_uuid) ||
                        object_.Find("cuDeviceGetUuid", &cuda.device_uuid);
  return has_all && has_uuid
             ? OkStatus()
             : Status(Error(ErrorCode::kNotFound,
                            object_.path() + " is too old, or is not NVIDIA's driver"));
}

Status CudaDevice::OpenDevice() {
  if (const int code = functions_.init(0); code == kCudaNoDevice) {
    return Error(ErrorCode::kNotFound, "no GPU is visible to this process");
  } else {
    LOCKSTEP_RETURN_IF_ERROR(Check(code, "start"));
  }
  LOCKSTEP_RETURN_IF_ERROR(Check(functions_.device_count(&visible_count_), "count GPUs"));
  if (visible_count_ == 0) {
    return Error(ErrorCode::kNotFound, "no GPU is visible to this process");
  }
  if (number_ >= visible_count_) {
    return Error(ErrorCode::kNotFound,
                 "GPU " + std::to_string(number_) + " of this process does not exist: " +
                     std::to_string(visible_count_) + " visible");
  }
  const std::string name = "GPU " + std::to_string(number_);
  LOCKSTEP_RETURN_IF_ERROR(Check(functions_.device_get(&device_, number_), "open " + name));
  GpuUuid bytes{};
  std::array<char, kProductBytes> product{};
  LOCKSTEP_RETURN_IF_ERROR(Check(functions_.device_uuid(bytes.data(), device_), "name " + name));
  LOCKSTEP_RETURN_IF_ERROR(
      Check(functions_.device_name(product.data(), kProductBytes - 1, device_), "name " + name));
  uuid_ = FormatGpuName(bytes, product.data());
  return Check(functions_.context_retain(&context_, device_), "open a context on " + uuid_);
}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr) {
    functions_.context_release(device_);
  }
}

Status CudaDevice::MakeCurrent() const {
  return Check(functions_.context_set(context_), "use " + uuid_);
}

bool CudaDevice::IsAhead(CudaEventHandle event) const {
  return functions_.event_query(event) == kCudaNotReady;
}

Status CudaDevice::Check(int code, const std::string& what) const {
  if (code == kCudaSuccess) {
    return OkStatus();
  }
  const char* words = nullptr;
  functions_.error_string(code, &words);
  return Error(code == kCudaOutOfMemory ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable,
               "CUDA cannot " + what + ": " +
                   (words != nullptr ? std::string(words) : "error " + std::to_string(code)));
}

CudaDeviceKeeper::CudaDeviceKeeper(const CudaDevice& any) : functions_(any.functions()) {
  if (functions_.context_get(&context_) != kCudaSuccess) {
    context_ = nullptr;
  }
}

CudaDeviceKeeper::~CudaDeviceKeeper() {
  if (context_ != nullptr) {
    functions_.context_set(context_);
  }
}

Result<std::unique_ptr<CudaStage>> CudaStage::Make(std::shared_ptr<const CudaDevice> device,
                                                   std::size_t host_byte_count,
                                                   std::size_t device_byte_count) {
  std::unique_ptr<CudaStage> stage(new CudaStage(std::move(device)));
  const CudaDevice& gpu = *stage->device_;
  const auto some = [](std::size_t byte_count) {
    return std::max<std::size_t>(1, byte_count);  // none cannot be had
  };
  const auto text = [](std::size_t byte_count) { return std::to_string(byte_count) + " bytes"; };
  const std::size_t host_size = some(host_byte_count);
  const std::size_t device_size = some(device_byte_count);
  LOCKSTEP_RETURN_IF_ERROR(gpu.MakeCurrent());
  LOCKSTEP_RETURN_IF_ERROR(gpu.Check(gpu.functions().host_allocate(&stage->host_, host_size, 0),
                                     "pin " + text(host_size) + " of host memory"));
  LOCKSTEP_RETURN_IF_ERROR(
      gpu.Check(gpu.functions().memory_allocate(&stage->device_memory_, device_size),
                "allocate " + text(device_size) + " on " + gpu.uuid()));
  LOCKSTEP_RETURN_IF_ERROR(gpu.Check(
      gpu.functions().stream_create(&stage->stream_, kStreamNonBlocking), "create a stream"));
  LOCKSTEP_RETURN_IF_ERROR(gpu.Check(
      gpu.functions().event_create(&stage->event_, kEventDisableTiming), "create an event"));
  return stage;
}

CudaStage::~CudaStage() {
  const CudaFunctions& cuda = device_->functions();
  if (!device_->MakeCurrent().ok()) {
    return;  // the driver has given the context up, and everything in it
  }
  if (stream_ != nullptr) {
    cuda.stream_destroy(stream_);
  }
  if (event_ != nullptr) {
    cuda.event_destroy(event_);
  }
  if (device_memory_ != 0) {
    cuda.memory_free(device_memory_);
  }
  if (host_ != nullptr) {
    cuda.host_free(host_);
  }
}

Status CudaStage::CopyToDevice(std::size_t offset, std::size_t size) {
  return device_->Check(
      device_->functions().copy_to_device(device_memory_ + offset, host() + offset, size, stream_),
      "copy " + std::to_string(size) + " bytes to " + device_->uuid());
}

Status CudaStage::CopyToHost(std::size_t offset, std::size_t size) {
  return device_->Check(
      device_->functions().copy_to_host(host() + offset, device_memory_ + offset, size, stream_),
      "copy " + std::to_string(size) + " bytes from " + device_->uuid());
}

Status CudaStage::PutOnes(std::size_t count) {
  return device_->Check(device_->functions().memory_fill(
                            device_memory_, std::bit_cast<unsigned int>(1.0F), count, stream_),
                        "fill memory on " + device_->uuid());
}

Status CudaStage::FetchFloat(std::size_t index, std::size_t place) {
  return device_->Check(device_->functions().copy_to_host(host() + place * sizeof(float),
                                                          device_memory_ + index * sizeof(float),
                                                          sizeof(float),
                                                          stream_),
                        "copy a number from " + device_->uuid());
}

// One event does for all: a wait is for what it recorded last.
Status CudaStage::WaitFor(CudaStreamHandle other) {
  const CudaFunctions& cuda = device_->functions();
  LOCKSTEP_RETURN_IF_ERROR(device_->Check(cuda.event_record(event_, other), "mark a stream"));
  return WaitForEvent(event_);
}

Status CudaStage::WaitForEvent(CudaEventHandle event) {
  return device_->Check(device_->functions().stream_wait(stream_, event, 0), "wait for a stream");
}

Status CudaStage::MakeWait(CudaStreamHandle other) {
  const CudaFunctions& cuda = device_->functions();
  LOCKSTEP_RETURN_IF_ERROR(device_->Check(cuda.event_record(event_, stream_), "mark a stream"));
  return device_->Check(cuda.stream_wait(other, event_, 0), "wait for a stream");
}

Result<bool> CudaStage::IsIdle() const {
  const int code = device_->functions().stream_query(stream_);
  if (code == kCudaNotReady) {
    return false;
  }
  LOCKSTEP_RETURN_IF_ERROR(device_->Check(code, "finish the work of a stream"));
  return true;
}

}  // namespace lockstep::runtime
