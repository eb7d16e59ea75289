#include "trainer-runtime/engine/torch/torch_calls.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

// OpenBLAS has threads of its own, which LibTorch's setting does not reach. Null with another BLAS.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);
extern "C" __attribute__((weak)) char* openblas_get_config();

namespace lockstep::runtime {

std::string DescribeTorch() {
  const std::string blas =
      openblas_get_config != nullptr ? openblas_get_config() : "a BLAS other than OpenBLAS";
  return "LibTorch " + std::string(TORCH_VERSION) + ", " + blas + ", 1 thread";
}

void UseOneThread() {
  thread_local const bool is_told = [] {
    at::set_num_threads(1);
    if (openblas_set_num_threads != nullptr) {
      openblas_set_num_threads(1);
    }
    return true;
  }();
  static_cast<void>(is_told);
}

}  // namespace lockstep::runtime
