#include "common/base/prng.h"

#include <bit>

#include "common/base/check.h"

namespace lockstep {

uint64_t Mix64(uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

Prng::Prng(uint64_t seed) : state_{} {
  for (uint64_t& word : state_) {
    word = Mix64(seed);
    seed += 0x9e3779b97f4a7c15U;
  }
}

uint64_t Prng::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Prng::Below(uint64_t bound) {
  LOCKSTEP_CHECK(bound > 0, "Prng::Below(0)");
  // Values under the threshold would make small results more likely; draw again.
  const uint64_t threshold = (0 - bound) % bound;
  uint64_t value = Next();
  while (value < threshold) {
    value = Next();
  }
  return value % bound;
}

double Prng::Unit() {
  return static_cast<double>(Next() >> 11U) * 0x1.0p-53;
}

}  // namespace lockstep
