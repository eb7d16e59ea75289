#include "common/base/time.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kNow{seconds(1000)};  // arbitrary

TEST(Deadline, RemainingShrinksToZeroAndNoFurther) {
  const Deadline deadline = Deadline::After(kNow, seconds(2));
  EXPECT_EQ(deadline.Remaining(kNow), seconds(2));
  EXPECT_TRUE(deadline.HasPassed(kNow + seconds(3)));
  EXPECT_EQ(deadline.Remaining(kNow + seconds(3)), Duration::zero());
}

TEST(Deadline, MillisecondsRoundUpSoThatAWaitDoesNotEndEarly) {
  const Deadline deadline = Deadline::After(kNow, Duration(1));
  EXPECT_EQ(deadline.RemainingMilliseconds(kNow), 1);
}

TEST(Deadline, FarDeadlineFitsPoll) {
  const Deadline deadline = Deadline::After(kNow, std::chrono::hours(24 * 365));
  EXPECT_EQ(deadline.RemainingMilliseconds(kNow), std::numeric_limits<int>::max());
}

TEST(FormatRfc3339, WritesUtcWithMilliseconds) {
  EXPECT_EQ(FormatRfc3339(WallTime(milliseconds(1'000'000'000'123))), "2001-09-09T01:46:40.123Z");
}

}  // namespace
}  // namespace lockstep
