#include "trainer-runtime/engine/torch_cuda/torch_cuda_pinning.h"

#include <cstring>
#include <cuda_runtime_api.h>
#include <string>

namespace lockstep::runtime {
namespace {

Error Refusal(const char* what, std::size_t byte_count, cudaError_t code) {
  static_cast<void>(cudaGetLastError());  // told here, and by nobody who asks later
  return Error(ErrorCode::kResourceExhausted,
               std::string(what) + " of " + std::to_string(byte_count) +
                   " bytes: " + cudaGetErrorString(code));
}

class CudaPinning final : public HostPinning {
 public:
  Result<HostFloats> Allocate(std::size_t count) override {
    void* memory = nullptr;
    const std::size_t byte_count = count * sizeof(float);
    const cudaError_t code = cudaHostAlloc(&memory, byte_count, cudaHostAllocPortable);
    if (code != cudaSuccess) {
      return Refusal("cudaHostAlloc", byte_count, code);
    }
    std::memset(memory, 0, byte_count);
    return HostFloats(static_cast<float*>(memory),
                      [](float* own) { static_cast<void>(cudaFreeHost(own)); });
  }

  Result<std::shared_ptr<void>> Pin(std::span<float> memory) override {
    const cudaError_t code =
        cudaHostRegister(memory.data(), memory.size_bytes(), cudaHostRegisterPortable);
    if (code != cudaSuccess) {
      return Refusal("cudaHostRegister", memory.size_bytes(), code);
    }
    return std::shared_ptr<void>(memory.data(),
                                 [](void* own) { static_cast<void>(cudaHostUnregister(own)); });
  }
};

}  // namespace

std::unique_ptr<HostPinning> MakeCudaPinning() {
  return std::make_unique<CudaPinning>();
}

}  // namespace lockstep::runtime
