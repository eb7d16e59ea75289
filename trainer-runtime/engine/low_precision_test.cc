#include "trainer-runtime/engine/low_precision.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

// The numbers of a format with so many digits after the point, in order: those of each exponent,
// and below the smallest one those that are as far apart as its own.
std::vector<float> AllHalves() {
  std::vector<float> numbers;
  for (int fraction = 0; fraction < 1024; ++fraction) {
    numbers.push_back(std::ldexp(static_cast<float>(fraction), -24));
  }
  for (int exponent = -14; exponent <= 15; ++exponent) {
    for (int fraction = 0; fraction < 1024; ++fraction) {
      numbers.push_back(std::ldexp(static_cast<float>(1024 + fraction), exponent - 10));
    }
  }
  return numbers;
}

std::vector<float> AllBFloat16() {
  std::vector<float> numbers;
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    numbers.push_back(std::bit_cast<float>(bits << 16));
  }
  return numbers;
}

float Rounded(Precision precision, float value) {
  // Among others, as vector code takes them, and as one that is left over.
  std::vector<float> values(17, value);
  RoundTo(precision, values);
  EXPECT_EQ(std::bit_cast<uint32_t>(values.front()), std::bit_cast<uint32_t>(values.back()));
  return values.front();
}

// Between two neighbours: what is nearer, and the even one halfway.
void ExpectNearest(Precision precision, const std::vector<float>& numbers) {
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const float low = numbers[i];
    const float high = numbers[i + 1];
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(Rounded(precision, low), low);
    ASSERT_EQ(Rounded(precision, -low), -low);
    ASSERT_EQ(Rounded(precision, std::nextafter(middle, low)), low);
    ASSERT_EQ(Rounded(precision, middle), i % 2 == 0 ? low : high);
    ASSERT_EQ(Rounded(precision, -middle), i % 2 == 0 ? -low : -high);
    ASSERT_EQ(Rounded(precision, std::nextafter(middle, high)), high);
  }
}

TEST(LowPrecision, Float16RoundsToTheNearestAndTiesToEven) {
  ExpectNearest(Precision::kFloat16, AllHalves());
}

TEST(LowPrecision, BFloat16RoundsToTheNearestAndTiesToEven) {
  ExpectNearest(Precision::kBFloat16, AllBFloat16());
}

TEST(LowPrecision, Float16EndsAt65504) {
  EXPECT_EQ(Rounded(Precision::kFloat16, 65504), 65504);
  EXPECT_EQ(Rounded(Precision::kFloat16, 65519.99F), 65504);
  EXPECT_EQ(Rounded(Precision::kFloat16, 65520), kFloatInfinity);
  EXPECT_EQ(Rounded(Precision::kFloat16, -1e30F), -kFloatInfinity);
  EXPECT_EQ(Rounded(Precision::kFloat16, -kFloatInfinity), -kFloatInfinity);
}

TEST(LowPrecision, WhatIsNotFiniteStaysSo) {
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    EXPECT_EQ(Rounded(precision, kFloatInfinity), kFloatInfinity);
    EXPECT_TRUE(std::isnan(Rounded(precision, kFloatNan)));
    // A NaN whose digits would all be rounded away.
    EXPECT_TRUE(std::isnan(Rounded(precision, std::bit_cast<float>(0x7f800001))));
    EXPECT_TRUE(std::isnan(Rounded(precision, std::bit_cast<float>(0xffffffff))));
  }
  EXPECT_EQ(Rounded(Precision::kBFloat16, std::numeric_limits<float>::max()), kFloatInfinity);
}

TEST(LowPrecision, Float32ChangesNothing) {
  EXPECT_EQ(Rounded(Precision::kFloat32, 1.0F / 3), 1.0F / 3);
}

TEST(LowPrecision, ScaleIsTakenOffWithoutLosingADigit) {
  std::vector<float> gradients = {65536.0F / 3, -65536.0F * 1e-6F, 0};
  EXPECT_TRUE(TakeOffScale(65536, gradients));
  EXPECT_EQ(gradients, (std::vector<float>{1.0F / 3, -1e-6F, 0}));
}

TEST(LowPrecision, OneNumberThatIsNotFiniteIsFoundWhereverItIs) {
  for (const float bad : {kFloatInfinity, -kFloatInfinity, kFloatNan}) {
    for (std::size_t at = 0; at < 37; ++at) {
      std::vector<float> gradients(37, std::numeric_limits<float>::max());
      EXPECT_TRUE(TakeOffScale(2, gradients));
      gradients[at] = bad;
      EXPECT_FALSE(TakeOffScale(2, gradients)) << at;
    }
  }
  EXPECT_TRUE(TakeOffScale(2, {}));
}

}  // namespace
}  // namespace lockstep::runtime
