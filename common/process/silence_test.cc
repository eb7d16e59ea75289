#include "common/process/silence.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr Duration kSilentAfter = milliseconds(1500);

// When a process of whom nothing else changes is given up.
Duration GivenUpAfter(Sight sight, bool is_missed_by_others, double processes_per_core = 1) {
  const SilenceLimits limits = LimitsOf(kSilentAfter, processes_per_core);
  Duration silent{};
  while (!IsGivenUp(silent, limits, sight, is_missed_by_others)) {
    silent += milliseconds(100);
  }
  return silent;
}

TEST(Silence, IsJudgedByWhatElseIsKnown) {
  struct Row {
    Sight sight;
    bool is_missed_by_others;
    Duration given_up_after;
  };

  const std::vector<Row> rows = {
      {Sight::kStopped, false, milliseconds(1500)},
      {Sight::kStopped, true, milliseconds(1500)},
      {Sight::kUnseen, false, milliseconds(5000)},
      {Sight::kUnseen, true, milliseconds(1500)},
      {Sight::kRunning, false, milliseconds(5000)},
      {Sight::kRunning, true, milliseconds(1500)},
      {Sight::kStrained, false, milliseconds(5000)},
      {Sight::kStrained, true, milliseconds(5000)},
      {Sight::kStarved, false, milliseconds(30'000)},
      {Sight::kStarved, true, milliseconds(30'000)},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(GivenUpAfter(row.sight, row.is_missed_by_others), row.given_up_after)
        << static_cast<int>(row.sight) << row.is_missed_by_others;
  }
}

TEST(Silence, OfAProcessThatSharesItsCoreWithManyIsWaitedOutForLonger) {
  EXPECT_EQ(GivenUpAfter(Sight::kUnseen, false, 4), milliseconds(5000));
  EXPECT_EQ(GivenUpAfter(Sight::kUnseen, false, 8), milliseconds(10'000));
  EXPECT_EQ(GivenUpAfter(Sight::kUnseen, false, 50), milliseconds(30'000)) << "the hard limit";
  EXPECT_EQ(GivenUpAfter(Sight::kStopped, false, 50), milliseconds(1500)) << "it will not speak";
}

TEST(Silence, WhoeverWaitsForALossHearsOfItInTime) {
  for (const Sight sight : {Sight::kUnseen, Sight::kRunning, Sight::kStrained, Sight::kStopped}) {
    EXPECT_GT(LossNoticedWithin(kSilentAfter),
              GivenUpAfter(sight, false) + LimitsOf(kSilentAfter, 1).look);
  }
}

TEST(Silence, IsSpokenOfOnlyWithoutAnExcuse) {
  const SilenceLimits limits = LimitsOf(kSilentAfter, 1);
  for (const Sight sight : {Sight::kUnseen, Sight::kRunning, Sight::kStopped}) {
    EXPECT_FALSE(IsSuspect(kSilentAfter - milliseconds(1), limits, sight));
    EXPECT_TRUE(IsSuspect(kSilentAfter, limits, sight));
  }
  for (const Sight sight : {Sight::kStarved, Sight::kStrained}) {
    EXPECT_FALSE(IsSuspect(10 * kSilentAfter, limits, sight));
  }
}

}  // namespace
}  // namespace lockstep
