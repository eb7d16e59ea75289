#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::runtime {

// Floating numbers of 16 bits in memory, float32 while they are added and compared: each result is
// rounded to the nearest, ties to even. Source: IEEE 754-2019 binary16; bfloat16 is the upper half
// of a float32.
struct Float16 {
  uint16_t bits = 0;
};

struct BFloat16 {
  uint16_t bits = 0;
};

float ToFloat(Float16 value);

inline float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Infinity where it is too large; a NaN stays one.
Float16 ToFloat16(float value);
BFloat16 ToBFloat16(float value);

inline Float16 operator+(Float16 a, Float16 b) {
  return ToFloat16(ToFloat(a) + ToFloat(b));
}

inline BFloat16 operator+(BFloat16 a, BFloat16 b) {
  return ToBFloat16(ToFloat(a) + ToFloat(b));
}

inline bool operator<(Float16 a, Float16 b) {
  return ToFloat(a) < ToFloat(b);
}

inline bool operator<(BFloat16 a, BFloat16 b) {
  return ToFloat(a) < ToFloat(b);
}

}  // namespace lockstep::runtime
