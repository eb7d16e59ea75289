#include "operator/scheduler/queue/half_life.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kOne = uint64_t{1} << 32U;

TEST(HalfLife, FactorHalvesWithEachAndIsSmoothInBetween) {
  EXPECT_EQ(DecayFactor(milliseconds(0), hours(1)), kOne);
  EXPECT_EQ(DecayFactor(hours(1), hours(1)), kOne / 2);
  EXPECT_EQ(DecayFactor(hours(3), hours(1)), kOne / 8);
  EXPECT_EQ(DecayFactor(hours(32), hours(1)), 0U);
  EXPECT_EQ(DecayFactor(hours(24 * 365 * 100), hours(1)), 0U);
  EXPECT_EQ(DecayFactor(seconds(1800), hours(1)), 3'037'000'500U) << "the root of a half";
  uint64_t last = kOne;
  for (int64_t second = 1; second < 7200; ++second) {
    const uint64_t factor = DecayFactor(seconds(second), hours(1));
    ASSERT_LT(factor, last) << second;
    last = factor;
  }
}

// An operator looks every 5 s, and a half-life may be a year.
TEST(HalfLife, ManySmallStepsAreAsOneLargeOne) {
  for (const hours half_life : {hours(1), hours(24 * 7), hours(24 * 365)}) {
    DecayingMean steps;
    constexpr int kSteps = 12 * 60 * 24;  // a day's
    for (int i = 0; i < kSteps; ++i) {
      steps.Hold(100'000, seconds(5), half_life);
    }
    DecayingMean once;
    once.Hold(100'000, seconds(5) * kSteps, half_life);
    EXPECT_NEAR(static_cast<double>(steps.Thousandths()),
                static_cast<double>(once.Thousandths()),
                static_cast<double>(once.Thousandths()) / 100)
        << half_life.count() << " h";
  }
}

TEST(HalfLife, MeanComesToWhatIsHeldAndGoesByHalves) {
  DecayingMean mean;
  mean.Hold(8, hours(1), hours(1));
  EXPECT_EQ(mean.Thousandths(), 4000);
  mean.Hold(8, hours(1), hours(1));
  EXPECT_EQ(mean.Thousandths(), 6000);
  mean.Hold(0, hours(2), hours(1));
  EXPECT_EQ(mean.Thousandths(), 1500);
  mean.Hold(0, hours(1000), hours(1));
  EXPECT_EQ(mean.Thousandths(), 0);
}

TEST(HalfLife, ThousandthsAreReadAsTheyWereWritten) {
  for (const int64_t thousandths : {0L, 1L, 333L, 999L, 1000L, 12'345L, 4'000'000'007L}) {
    EXPECT_EQ(DecayingMean::OfThousandths(thousandths).Thousandths(), thousandths);
  }
}

TEST(HalfLife, LargestAmountsDoNotOverflow) {
  DecayingMean mean = DecayingMean::OfThousandths(999'999'999'999'999'999);
  EXPECT_EQ(mean.Thousandths() / 1000, kMeanAmountMax);
  mean.Hold(int64_t{1} << 62U, hours(1), hours(1));
  EXPECT_EQ(mean.Thousandths() / 1000, kMeanAmountMax);
  mean.Hold(0, hours(1), hours(1));
  EXPECT_EQ(mean.Thousandths() / 1000, kMeanAmountMax / 2);
}

}  // namespace
}  // namespace lockstep::control
