#include "common/base/prng.h"

#include <array>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Prng, SameSeedGivesTheSameSequence) {
  Prng a(42);
  Prng b(42);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(a.Next(), b.Next());
  }
}

TEST(Prng, BelowStaysInsideAndReachesEveryValue) {
  Prng prng(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) {
    ++seen.at(prng.Below(7));
  }
  for (const int count : seen) {
    // Binomial(7000, 1/7): mean 1000, deviation 29; six deviations never fail by chance.
    EXPECT_NEAR(count, 1000, 180);
  }
}

TEST(Prng, UnitIsHalfOpen) {
  Prng prng(3);
  for (int i = 0; i < 10000; ++i) {
    const double value = prng.Unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
  }
}

TEST(Mix64, KnownAnswerOfSplitMix64) {
  EXPECT_EQ(Mix64(0), 0xe220a8397b1dcdafU);
}

}  // namespace
}  // namespace lockstep
