#include "trainer-runtime/strategy/gradient_clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(GradientClip, LongerOnesAreShortenedToTheNorm) {
  std::vector<float> gradients(22, 0);
  gradients[2] = 3;    // in a sum beside others
  gradients[21] = -4;  // and in the rest that fills none
  ClipGradients(2.5, gradients);
  EXPECT_EQ(gradients[2], 1.5F);
  EXPECT_EQ(gradients[21], -2.0F);
  ClipGradients(2.5, gradients);
  EXPECT_EQ(gradients[2], 1.5F) << "its length is the norm now";
}

TEST(GradientClip, OthersStayAsTheyAre) {
  const std::vector<float> before{3, -4, 0};
  std::vector<float> gradients = before;
  ClipGradients(5, gradients);
  EXPECT_EQ(gradients, before);
  ClipGradients(5, {});
}

TEST(GradientClip, WhatIsNotFiniteIsLeftToWhoLooksForIt) {
  std::vector<float> gradients{3, std::numeric_limits<float>::infinity()};
  ClipGradients(1, gradients);
  EXPECT_EQ(gradients[0], 3);
  gradients[1] = std::numeric_limits<float>::quiet_NaN();
  ClipGradients(1, gradients);
  EXPECT_EQ(gradients[0], 3);
}

TEST(GradientClip, LengthOfTheLargestNumbersIsANumber) {
  std::vector<float> gradients(1000, std::numeric_limits<float>::max());
  ClipGradients(1, gradients);
  EXPECT_NEAR(gradients[999], 1 / std::sqrt(1000.0), 1e-6);
}

}  // namespace
}  // namespace lockstep::runtime
