#include "operator/cmd/clock_watch.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kServer{seconds(1'796'212'800)};
const ServerClock::Range kShown{kServer, kServer + seconds(1)};
const TimePoint kLookedAt{seconds(100)};

TEST(ClockWatch, ClocksThatAgreeWithinHalfAMinuteAreRight) {
  ClockWatch watch;
  for (const seconds offset : {seconds(-30), seconds(0), seconds(31)}) {
    watch.Look(kServer + offset, kShown);
    EXPECT_EQ(watch.why(), "") << offset.count();
    EXPECT_EQ(watch.TrustedNow(), kServer + offset);
    EXPECT_EQ(watch.Correct(kServer + offset, kLookedAt), std::nullopt);
  }
}

// The operator's clock was ten minutes ahead.
TEST(ClockWatch, OneThatIsAheadGoesByTheServersTime) {
  ClockWatch watch;
  watch.Look(kServer + minutes(10), kShown);
  EXPECT_EQ(watch.offset(), seconds(599));
  EXPECT_EQ(watch.TrustedNow(), kServer);
  EXPECT_NE(watch.why().find("599 seconds ahead of the API server's"), std::string::npos);
}

TEST(ClockWatch, OneThatIsBehindGoesByItsOwnWhichIsTheEarlier) {
  ClockWatch watch;
  watch.Look(kServer - minutes(10), kShown);
  EXPECT_EQ(watch.offset(), -minutes(10));
  EXPECT_EQ(watch.TrustedNow(), kServer - minutes(10));
  EXPECT_EQ(watch.Correct(kServer - minutes(10), kLookedAt), std::nullopt);
  EXPECT_NE(watch.why().find("600 seconds behind the API server's"), std::string::npos);
}

TEST(ClockWatch, AServerThatTellsNoTimeIsNotComparedWith) {
  ClockWatch watch;
  watch.Look(kServer, std::nullopt);
  EXPECT_EQ(watch.offset(), Duration::zero());
  EXPECT_EQ(watch.TrustedNow(), kServer);
  EXPECT_EQ(watch.Correct(kServer + minutes(10), kLookedAt), std::nullopt);
}

// A leader's calendar goes on from the moment when it began to lead, whatever happens to the clock.
TEST(ClockWatch, LeaderTakesTheRightTimeOnceItsClockIsSet) {
  ClockWatch watch;
  watch.Look(kServer - minutes(10), kShown);
  EXPECT_EQ(watch.Correct(kServer - minutes(10), kLookedAt), std::nullopt);
  watch.Look(kServer, kShown);
  EXPECT_EQ(watch.why(), "");
  EXPECT_EQ(watch.Correct(kServer - minutes(10), kLookedAt), kServer);
}

TEST(ClockWatch, LeaderWhoseCalendarIsAheadTakesTheServersTimeOnceAMinute) {
  ClockWatch watch;
  watch.Look(kServer + minutes(10), kShown);
  EXPECT_EQ(watch.Correct(kServer + minutes(10), kLookedAt), kServer);
  EXPECT_EQ(watch.Correct(kServer + minutes(10), kLookedAt + seconds(59)), std::nullopt);
  EXPECT_EQ(watch.Correct(kServer + minutes(10), kLookedAt + seconds(60)), kServer);
}

TEST(ClockWatch, LeaderWhoseCalendarIsRightKeepsItWhenTheClockIsSetWrong) {
  ClockWatch watch;
  watch.Look(kServer - minutes(10), kShown);
  EXPECT_EQ(watch.Correct(kServer, kLookedAt), std::nullopt);
}

}  // namespace
}  // namespace lockstep::control
