#include "trainer-runtime/collectives/reduce/half_float.h"

#include <cmath>

namespace lockstep::runtime {
namespace {

// Drops the low `count` bits, rounding to the nearest, ties to even. Carries go into the exponent,
// which is what makes the next power of two, and infinity, come out right.
uint32_t RoundOff(uint32_t bits, int count) {
  const uint32_t half = uint32_t{1} << (count - 1);
  const uint32_t is_odd = bits >> count & 1;
  return (bits + half - 1 + is_odd) >> count;
}

}  // namespace

float ToFloat(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t exponent = value.bits >> 10 & 0x1F;
  const uint32_t fraction = value.bits & 0x3FF;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  }
  if (exponent == 0) {  // fraction * 2^-24, which float32 holds exactly
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign == 0 ? magnitude : -magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

Float16 ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const auto with_sign = [sign](uint32_t rest) {
    return Float16{static_cast<uint16_t>(sign | rest)};
  };
  if (magnitude > 0x7F800000) {
    return with_sign(0x7E00);
  }
  if (magnitude >= 0x477FF000) {  // 65520: halfway from the largest number to the next
    return with_sign(0x7C00);
  }
  if (magnitude >= 0x38800000) {  // 2^-14: a normal number
    return with_sign(RoundOff(magnitude - (uint32_t{112} << 23), 13));
  }
  if (magnitude < 0x33000000) {  // below 2^-25, half of the smallest
    return with_sign(0);
  }
  const int exponent = static_cast<int>(magnitude >> 23);
  const uint32_t fraction = (magnitude & 0x7FFFFF) | 0x800000;
  return with_sign(RoundOff(fraction, 126 - exponent));
}

BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  }
  return {static_cast<uint16_t>(RoundOff(bits, 16))};
}

}  // namespace lockstep::runtime
