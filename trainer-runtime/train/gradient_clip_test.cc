#include "trainer-runtime/train/gradient_clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"

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

// SGD's step is the gradient's, so its length shows what was clipped: the sum's over all ranks.
TEST(GradientClip, StepOfAnyNumberOfRanksHasTheNormOfOne) {
  TrainingSpec spec = MakeSpec(1);
  spec.optimizer = SgdOptimizer{.learning_rate = 1};
  const auto length_of_step = [&](int rank_count, int64_t replicas) {
    spec.replicas = replicas;
    const Gang gang = MakeRanks(rank_count, spec);
    const std::vector<float> before = Weights(gang[0]->engine);
    RunMeeting(gang, Epoch(1));
    ExpectAll(gang, TrainerVerdict::kFinished);
    double squares = 0;
    for (const auto& rank : gang) {
      EXPECT_EQ(Weights(rank->engine), Weights(gang[0]->engine));
    }
    const std::vector<float> after = Weights(gang[0]->engine);
    for (std::size_t i = 0; i < before.size(); ++i) {
      squares += std::pow(static_cast<double>(after[i]) - before[i], 2);
    }
    return std::sqrt(squares);
  };
  ASSERT_GT(length_of_step(1, 1), 0.2);
  spec.gradient_clip_norm = 0.125;
  EXPECT_NEAR(length_of_step(1, 1), 0.125, 1e-6);
  EXPECT_NEAR(length_of_step(3, 1), 0.125, 1e-6);
  EXPECT_NEAR(length_of_step(2, 2), 0.125, 1e-6);
}

}  // namespace
}  // namespace lockstep::runtime
