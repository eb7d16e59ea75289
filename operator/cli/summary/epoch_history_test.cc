#include "operator/cli/summary/epoch_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

DataEpochResult ResultOfEpoch(int64_t number, int64_t samples = 9000) {
  return {number, 94 * (number + 1), samples, 0.5, 0.875, 1.25};
}

TEST(EpochHistory, EachEpochIsNewOnce) {
  EpochHistory history;
  history.Add({ResultOfEpoch(0)});
  EXPECT_THAT(history.TakeNew(), ElementsAre(ResultOfEpoch(0)));
  history.Add({ResultOfEpoch(0), ResultOfEpoch(1)});
  EXPECT_THAT(history.TakeNew(), ElementsAre(ResultOfEpoch(1)));
  EXPECT_THAT(history.TakeNew(), IsEmpty());
  EXPECT_THAT(history.All(), ElementsAre(ResultOfEpoch(0), ResultOfEpoch(1)));
}

// The newcomer's report is read before that of a rank which was there from the start.
TEST(EpochHistory, EpochThatIsToldLateIsNewAsWell) {
  EpochHistory history;
  history.Add({ResultOfEpoch(2)});
  EXPECT_THAT(history.TakeNew(), ElementsAre(ResultOfEpoch(2)));
  history.Add({ResultOfEpoch(0), ResultOfEpoch(1), ResultOfEpoch(2)});
  EXPECT_THAT(history.TakeNew(), ElementsAre(ResultOfEpoch(0), ResultOfEpoch(1)));
}

// Of one who joined in its midst the loss is the whole epoch's, and the time is not.
TEST(EpochHistory, OfEqualSamplesWhoTimedTheMostIsRight) {
  DataEpochResult joined = ResultOfEpoch(3);
  joined.timed_sample_count = 3000;
  joined.seconds = 0.5;
  EpochHistory history;
  history.Add({joined});
  history.Add({ResultOfEpoch(3)});
  history.Add({joined});
  EXPECT_THAT(history.All(), ElementsAre(ResultOfEpoch(3)));
}

TEST(EpochHistory, WhoSawMoreSamplesIsRight) {
  EpochHistory history;
  history.Add({ResultOfEpoch(3, 100)});
  history.Add({ResultOfEpoch(3, 9000)});
  history.Add({ResultOfEpoch(3, 200)});
  EXPECT_THAT(history.All(), ElementsAre(ResultOfEpoch(3, 9000)));
}

TEST(EpochHistory, OnlyTheNewestAreRemembered) {
  EpochHistory history;
  for (int64_t epoch = 0; epoch < 1005; ++epoch) {
    history.Add({ResultOfEpoch(epoch)});
  }
  ASSERT_EQ(history.All().size(), kEpochsRememberedMax);
  EXPECT_EQ(history.All().front().data_epoch, 5);
}

TEST(FormatDataEpoch, TellsWhatIsKnown) {
  EXPECT_EQ(FormatDataEpoch(ResultOfEpoch(1), 5),
            "data epoch 2 of 5: loss 0.5000, training accuracy 87.5 %, 1.2 s");
  EXPECT_EQ(FormatDataEpoch({0, 9, 9, {}, {}, 0.04}, std::nullopt),
            "data epoch 1: loss not finite, 0.0 s");
  EXPECT_EQ(FormatDataEpoch({1, 188, 9000, 0.5, {}, 0.64, 3000}, 5),
            "data epoch 2 of 5: loss 0.5000, 0.6 s for the last 3000 of its 9000 samples");
  EXPECT_EQ(FormatDataEpoch({1, 188, 9000, 0.5, {}, 0, 0}, 5),
            "data epoch 2 of 5: loss 0.5000, untimed");
  EXPECT_EQ(FormatDataEpoch({1, 188, 9000, 0.5, {}, 0.64, {}, 8904}, 5),
            "data epoch 2 of 5: loss 0.5000, 0.6 s; the loss is the mean over 8904 of its 9000 "
            "samples, without samples of skipped steps");
}

}  // namespace
}  // namespace lockstep::control
