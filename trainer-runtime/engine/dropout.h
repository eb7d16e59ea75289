#pragma once

#include <cstdint>
#include <span>

namespace lockstep::runtime {

// Fills `factors` with 0 (probability `rate`) or 1 / (1 - rate). Element i depends on
// (seed, first_index + i) only: equal seeds give equal masks on every machine, and ranks that say
// where their part of a global batch starts get the parts of its one mask.
// Precondition: 0 <= rate < 1.
void FillDropoutFactors(uint64_t seed, double rate, uint64_t first_index, std::span<float> factors);

}  // namespace lockstep::runtime
