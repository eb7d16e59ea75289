#include "trainer-runtime/engine/initializer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

std::vector<float> Kernel(uint64_t seed, int64_t layer) {
  std::vector<float> kernel(10'000);
  FillGlorotUniform(seed, layer, {100, 200}, kernel);
  return kernel;
}

TEST(GlorotUniform, FillsItsRangeEvenly) {
  const std::vector<float> kernel = Kernel(1, 0);
  const float limit = std::sqrt(6.0f / 300);
  EXPECT_GE(*std::ranges::min_element(kernel), -limit);
  EXPECT_LT(*std::ranges::max_element(kernel), limit);
  EXPECT_GT(*std::ranges::max_element(kernel), 0.99f * limit);
  EXPECT_NEAR(std::accumulate(kernel.begin(), kernel.end(), 0.0) / 10'000, 0, 0.03 * limit);
}

TEST(GlorotUniform, FollowsFromSeedAndLayer) {
  EXPECT_EQ(Kernel(1, 0), Kernel(1, 0));
  EXPECT_NE(Kernel(1, 0), Kernel(2, 0));
  EXPECT_NE(Kernel(1, 0), Kernel(1, 1));
  EXPECT_NE(Kernel(1, 2), Kernel(2, 1));
}

}  // namespace
}  // namespace lockstep::runtime
