#include "trainer-runtime/engine/dropout.h"

#include "common/base/prng.h"

namespace lockstep::runtime {

void FillDropoutFactors(uint64_t seed,
                        double rate,
                        uint64_t first_index,
                        std::span<float> factors) {
  constexpr double kTwoTo32 = 4294967296.0;
  const auto threshold = static_cast<uint64_t>(rate * kTwoTo32);
  const auto kept = static_cast<float>(1 / (1 - rate));
  const uint64_t base = Mix64(seed) + first_index;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const uint64_t bits = Mix64(base + i) >> 32;
    factors[i] = bits < threshold ? 0 : kept;
  }
}

}  // namespace lockstep::runtime
