#include "trainer-runtime/train/loss_scale.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(LossScale, BeginsAtTwoToThe16) {
  EXPECT_EQ(LossScale().scale, 1 << 16U);
  EXPECT_TRUE(IsSound(LossScale()));
}

TEST(LossScale, DoublesAfterTwoThousandGoodStepsInARow) {
  LossScale scale;
  for (int i = 1; i < 2000; ++i) {
    scale = AfterGoodStep(scale);
    ASSERT_EQ(scale, (LossScale{65536, i, 0}));
  }
  scale = AfterGoodStep(scale);
  EXPECT_EQ(scale, (LossScale{131072, 0, 0}));
}

TEST(LossScale, SkippedStepHalvesCountsAndBreaksTheRow) {
  EXPECT_EQ(AfterSkippedStep({65536, 1999, 4}), (LossScale{32768, 0, 5}));
}

TEST(LossScale, StaysWithinItsEnds) {
  EXPECT_EQ(AfterSkippedStep({1, 3, 0}), (LossScale{1, 0, 1}));
  EXPECT_TRUE(IsAtFloor({1, 0, 0}));
  EXPECT_FALSE(IsAtFloor({2, 0, 0}));
  EXPECT_EQ(AfterGoodStep({kLossScaleMax, 1999, 0}), (LossScale{kLossScaleMax, 0, 0}));
}

TEST(LossScale, OthersCannotHaveComeAbout) {
  for (const LossScale& bad : {LossScale{0, 0, 0},
                               LossScale{3, 0, 0},
                               LossScale{-2, 0, 0},
                               LossScale{kLossScaleMax * 2, 0, 0},
                               LossScale{2, -1, 0},
                               LossScale{2, 0, -1}}) {
    EXPECT_FALSE(IsSound(bad)) << bad.scale;
  }
}

}  // namespace
}  // namespace lockstep::runtime
