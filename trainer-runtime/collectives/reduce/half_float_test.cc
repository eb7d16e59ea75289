#include "trainer-runtime/collectives/reduce/half_float.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

constexpr int kAll = 1 << 16;

TEST(Float16, EveryNumberIsItselfAgain) {
  for (int bits = 0; bits < kAll; ++bits) {
    const Float16 value{static_cast<uint16_t>(bits)};
    const float wide = ToFloat(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToFloat16(wide)))) << bits;
    } else {
      EXPECT_EQ(ToFloat16(wide).bits, bits);
    }
  }
}

// Between two neighbours: what is nearer, and the even one halfway.
TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (int bits = 0; bits < 0x7BFF; ++bits) {
    const float low = ToFloat(Float16{static_cast<uint16_t>(bits)});
    const float high = ToFloat(Float16{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(ToFloat16(std::nextafter(middle, low)).bits, bits);
    EXPECT_EQ(ToFloat16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(ToFloat16(std::nextafter(middle, high)).bits, bits + 1);
    EXPECT_EQ(ToFloat16(-middle).bits, 0x8000 | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TEST(Float16, KnowsItsPlaces) {
  EXPECT_EQ(ToFloat(Float16{0x3C00}), 1.0F);
  EXPECT_EQ(ToFloat(Float16{0xC000}), -2.0F);
  EXPECT_EQ(ToFloat(Float16{0x7BFF}), 65504.0F);
  EXPECT_EQ(ToFloat(Float16{0x0001}), std::ldexp(1.0F, -24));
  EXPECT_EQ(ToFloat16(65519.0F).bits, 0x7BFF);
  EXPECT_EQ(ToFloat16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(ToFloat16(-std::numeric_limits<float>::infinity()).bits, 0xFC00);
}

TEST(BFloat16, EveryNumberIsItselfAgain) {
  for (int bits = 0; bits < kAll; ++bits) {
    const float wide = ToFloat(BFloat16{static_cast<uint16_t>(bits)});
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(wide)))) << bits;
    } else {
      EXPECT_EQ(ToBFloat16(wide).bits, bits);
    }
  }
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(ToBFloat16(1.0F + std::ldexp(1.0F, -8)).bits, 0x3F80);
  EXPECT_EQ(ToBFloat16(1.0F + 3 * std::ldexp(1.0F, -8)).bits, 0x3F82);
  EXPECT_EQ(ToBFloat16(1.0F + 1.5F * std::ldexp(1.0F, -8)).bits, 0x3F81);
  EXPECT_EQ(ToBFloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
}

TEST(HalfFloat, AddsAndComparesAsFloatsDo) {
  EXPECT_EQ(ToFloat(ToFloat16(1.5F) + ToFloat16(2.25F)), 3.75F);
  EXPECT_EQ(ToFloat(ToBFloat16(1.5F) + ToBFloat16(-2.25F)), -0.75F);
  EXPECT_TRUE(ToFloat16(-3.0F) < ToFloat16(-2.0F));
  EXPECT_FALSE(ToBFloat16(2.0F) < ToBFloat16(-2.0F));
}

}  // namespace
}  // namespace lockstep::runtime
