#include "trainer-runtime/engine/host_floats.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace lockstep::runtime {

HostFloats OnHeap(std::size_t count) {
  auto* const memory =
      static_cast<float*>(std::calloc(std::max<std::size_t>(count, 1), sizeof(float)));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return {memory, [](float* own) { std::free(own); }};
}

}  // namespace lockstep::runtime
