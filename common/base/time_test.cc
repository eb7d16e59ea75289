#include "common/base/time.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Deadline, RemainingShrinksToZeroAndNoFurther) {
  ManualClock clock;
  const Deadline deadline = Deadline::After(clock.Now(), seconds(2));
  EXPECT_EQ(deadline.Remaining(clock.Now()), seconds(2));
  clock.Advance(seconds(3));
  EXPECT_TRUE(deadline.HasPassed(clock.Now()));
  EXPECT_EQ(deadline.Remaining(clock.Now()), Duration::zero());
}

TEST(Deadline, MillisecondsRoundUpSoThatAWaitDoesNotEndEarly) {
  ManualClock clock;
  const Deadline deadline = Deadline::After(clock.Now(), Duration(1));
  EXPECT_EQ(deadline.RemainingMilliseconds(clock.Now()), 1);
}

TEST(Deadline, FarDeadlineFitsPoll) {
  ManualClock clock;
  const Deadline deadline = Deadline::After(clock.Now(), std::chrono::hours(24 * 365));
  EXPECT_EQ(deadline.RemainingMilliseconds(clock.Now()), std::numeric_limits<int>::max());
}

TEST(FormatRfc3339, WritesUtcWithMilliseconds) {
  EXPECT_EQ(FormatRfc3339(WallTime(milliseconds(1'000'000'000'123))), "2001-09-09T01:46:40.123Z");
}

}  // namespace
}  // namespace lockstep
