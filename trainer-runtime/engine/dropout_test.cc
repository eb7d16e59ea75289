#include "trainer-runtime/engine/dropout.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

std::vector<float> Factors(uint64_t seed, double rate) {
  std::vector<float> factors(10'000);
  FillDropoutFactors(seed, rate, 0, factors);
  return factors;
}

TEST(Dropout, DropsItsShareAndScalesTheRest) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const std::vector<float> factors = Factors(1, rate);
    const auto dropped = std::ranges::count(factors, 0.0f);
    const auto kept = std::ranges::count(factors, static_cast<float>(1 / (1 - rate)));
    EXPECT_EQ(dropped + kept, 10'000);
    // Five standard deviations of a fair draw at the widest, rate 0.5.
    EXPECT_NEAR(static_cast<double>(dropped), rate * 10'000, 250) << rate;
  }
}

TEST(Dropout, ZeroRateKeepsAll) {
  EXPECT_EQ(std::ranges::count(Factors(1, 0), 1.0f), 10'000);
}

TEST(Dropout, MaskFollowsFromTheSeed) {
  EXPECT_EQ(Factors(1, 0.5), Factors(1, 0.5));
  EXPECT_NE(Factors(1, 0.5), Factors(2, 0.5));
}

TEST(Dropout, PartsOfAMaskAreTheWholeMask) {
  const std::vector<float> whole = Factors(1, 0.5);
  std::vector<float> parts(whole.size());
  const std::size_t cut = 3'333;
  FillDropoutFactors(1, 0.5, 0, std::span<float>(parts).first(cut));
  FillDropoutFactors(1, 0.5, cut, std::span<float>(parts).subspan(cut));
  EXPECT_EQ(parts, whole);
}

// A mask that only shifts from seed to seed would drop the same neighbours together.
TEST(Dropout, NeighbouringSeedsAreNotShiftedCopies) {
  const std::vector<float> first = Factors(1, 0.5);
  const std::vector<float> second = Factors(2, 0.5);
  EXPECT_FALSE(std::equal(first.begin() + 1, first.end(), second.begin()));
}

}  // namespace
}  // namespace lockstep::runtime
