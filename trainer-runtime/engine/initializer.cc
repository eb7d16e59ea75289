#include "trainer-runtime/engine/initializer.h"

#include <cmath>

#include "common/base/prng.h"

namespace lockstep::runtime {

void FillGlorotUniform(uint64_t seed, int64_t layer_index, Fan fan, std::span<float> kernel) {
  // One stream a layer: changing one layer's size leaves the start of all others as it was.
  Prng prng(Mix64(Mix64(seed) + static_cast<uint64_t>(layer_index)));
  const double limit = std::sqrt(6.0 / static_cast<double>(fan.in + fan.out));
  for (float& value : kernel) {
    value = static_cast<float>((2 * prng.Unit() - 1) * limit);
  }
}

}  // namespace lockstep::runtime
