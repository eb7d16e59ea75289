#include "trainer-runtime/engine/low_precision.h"

#include <bit>
#include <cstdint>

#include "trainer-runtime/engine/vector_clones.h"

namespace lockstep::runtime {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kLargestFinite = 0x7f7fffff;
constexpr uint32_t kLargestHalf = 0x477fe000;         // 65504
constexpr uint32_t kSmallestNormalHalf = 0x38800000;  // 2^-14

// Both without a branch, so that the compiler rounds several at a time. A carry goes into the
// exponent, which is what makes the next power of two come out right.
inline float NearestHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~uint32_t{0x1fff};
  const uint32_t normal = rounded > kLargestHalf ? kInfinity : rounded;
  // Below 2^-14 numbers are 2^-24 apart, and so are float32's from 0.5 on.
  const auto tiny = std::bit_cast<uint32_t>((std::bit_cast<float>(magnitude) + 0.5F) - 0.5F);
  const uint32_t number = magnitude < kSmallestNormalHalf ? tiny : normal;
  return std::bit_cast<float>((bits & kSign) | (magnitude > kInfinity ? magnitude : number));
}

inline float NearestBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return std::bit_cast<float>((bits & ~kSign) > kInfinity ? bits : rounded);
}

LOCKSTEP_VECTOR_CLONES
void HalfLoop(int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = NearestHalf(values[i]);
  }
}

LOCKSTEP_VECTOR_CLONES
void BFloat16Loop(int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = NearestBFloat16(values[i]);
  }
}

// Returns 0 if all are finite.
LOCKSTEP_VECTOR_CLONES
uint32_t ScaleLoop(int64_t count, float factor, float* values) {
  uint32_t above = 0;
  for (int64_t i = 0; i < count; ++i) {
    above |= (std::bit_cast<uint32_t>(values[i]) & ~kSign) > kLargestFinite ? 1U : 0U;
    values[i] *= factor;
  }
  return above;
}

}  // namespace

void RoundTo(Precision precision, std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  switch (precision) {
    case Precision::kFloat32:
      return;
    case Precision::kBFloat16:
      return BFloat16Loop(count, values.data());
    case Precision::kFloat16:
      return HalfLoop(count, values.data());
  }
}

bool TakeOffScale(double loss_scale, std::span<float> gradients) {
  const auto count = static_cast<int64_t>(gradients.size());
  return ScaleLoop(count, static_cast<float>(1 / loss_scale), gradients.data()) == 0;
}

}  // namespace lockstep::runtime
