#include "trainer-runtime/engine/torch_cuda/torch_cuda_device.h"

#include <algorithm>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <optional>
#include <utility>
#include <variant>

#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include "trainer-runtime/engine/cuda/update_kernels.h"
#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kCudaHalf = "libtorch_cuda.so";

std::string WordsOf(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

// As NVML and the device plugin write it.
std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += byte;
  }
  return text;
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
    return Error(ErrorCode::kNotFound, none + "the driver shows none to this process");
  }
  std::string visible;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    const cudaError_t asked = cudaGetDeviceProperties(&properties, index);
    if (asked != cudaSuccess) {
      return Error(ErrorCode::kNotFound,
                   "CUDA device " + std::to_string(index) + " refuses: " + WordsOf(asked));
    }
    const std::string found = UuidText(properties.uuid);
    if (uuid.empty() || uuid == found) {
      return index;
    }
    visible += (visible.empty() ? "" : ", ") + found;
  }
  return Error(ErrorCode::kNotFound, "CUDA does not see " + uuid + " here; it sees " + visible);
}

class TorchCudaDevice final : public TorchDevice {
 public:
  TorchCudaDevice(int index, std::string name) : index_(index), name_(std::move(name)) {}

  at::Device place() const override { return {at::kCUDA, static_cast<c10::DeviceIndex>(index_)}; }

  bool IsTheHostsMemory() const override { return false; }

  MemoryKind memory() const override { return MemoryKind::kCuda; }

  void* stream() const override {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index_)).stream();
  }

  std::string Describe() const override {
    return "CUDA device " + std::to_string(index_) + ", " + name_;
  }

  // By way of pinned memory, from which the device fetches it while the host goes on. LibTorch
  // keeps that memory until the device has.
  at::Tensor Upload(std::span<const float> values, at::IntArrayRef shape) override {
    const at::Tensor pinned =
        at::empty(shape, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
    std::copy(values.begin(), values.end(), pinned.data_ptr<float>());
    return pinned.to(place(), at::kFloat, /*non_blocking=*/true);
  }

  Status Update(const OptimizerSpec& optimizer,
                int64_t update_number,
                const DeviceState& state) override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index_));
    CUstream_st* const stream = c10::cuda::getCurrentCUDAStream().stream();
    const int64_t count = state.parameters.numel();
    const int64_t slot_count = count == 0 ? 0 : state.slots.numel() / count;
    UpdateBuffers buffers;
    buffers.count = count;
    buffers.parameters = state.parameters.data_ptr<float>();
    buffers.gradients = state.gradients.data_ptr<float>();
    buffers.first_slot = slot_count > 0 ? state.slots.data_ptr<float>() : nullptr;
    buffers.second_slot = slot_count > 1 ? state.slots.data_ptr<float>() + count : nullptr;
    const int code =
        std::visit([&](const auto& factors) { return runtime::Update(factors, buffers, stream); },
                   MakeUpdateFactors(optimizer, update_number));
    if (code != cudaSuccess) {
      return Error(ErrorCode::kInternal, "CUDA refuses the update: " + WordsOf(code));
    }
    return OkStatus();
  }

 private:
  int index_;
  std::string name_;
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
                 std::string("cannot load LibTorch's CUDA half: ") +
                     (reason != nullptr ? reason : kCudaHalf));
  }
  ChooseProducts(precision);
  cudaDeviceProp properties;
  const cudaError_t asked = cudaGetDeviceProperties(&properties, index);
  const std::string name = asked == cudaSuccess ? properties.name : WordsOf(asked);
  return std::unique_ptr<TorchDevice>(std::make_unique<TorchCudaDevice>(index, name));
}

}  // namespace lockstep::runtime
