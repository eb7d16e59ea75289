#pragma once

#include <cstdint>
#include <span>

namespace lockstep::runtime {

// Fills `factors` with 0 (probability `rate`) or 1 / (1 - rate). Element i depends on (seed, i)
// only, so equal seeds give equal masks on every machine. Precondition: 0 <= rate < 1.
void FillDropoutFactors(uint64_t seed, double rate, std::span<float> factors);

}  // namespace lockstep::runtime
