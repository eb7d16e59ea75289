#pragma once

#include <cstdint>

namespace lockstep {

// Spreads the bits of `value` over all 64: two inputs that differ in one bit share nothing visible.
// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix64(uint64_t value);

// Seeded generator of uniform numbers, equal on every platform. Not for secrets.
// Source: xoshiro256** (Blackman, Vigna 2018), state filled by SplitMix64. Thread: one.
class Prng {
 public:
  explicit Prng(uint64_t seed);

  uint64_t Next();

  // Uniform in [0, bound), without modulo bias. Precondition (checked): bound > 0.
  uint64_t Below(uint64_t bound);

  // Uniform in [0, 1), 53 random bits.
  double Unit();

 private:
  uint64_t state_[4];
};

}  // namespace lockstep
