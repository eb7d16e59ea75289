#include "trainer-runtime/engine/host_floats.h"

namespace lockstep::runtime {

HostFloats OnHeap(std::size_t count) {
  return {std::make_unique_for_overwrite<float[]>(count).release(), std::default_delete<float[]>()};
}

}  // namespace lockstep::runtime
