#pragma once

#include <cstdint>
#include <span>

namespace lockstep::runtime {

// A number that differs, but for one chance in 2^64, where the bits of `values` do. Equal values of
// one build on one architecture have equal digests: it is for ranks to compare, not to keep.
// Reads as fast as memory gives. Not for telling apart what somebody made alike on purpose.
uint64_t DigestOf(std::span<const float> values);

}  // namespace lockstep::runtime
