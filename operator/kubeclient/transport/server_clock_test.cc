#include "operator/kubeclient/transport/server_clock.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WallTime kNoon{seconds(1'796'212'800)};  // 2026-12-02T12:00:00Z
constexpr const char* kNoonDate = "Wed, 02 Dec 2026 12:00:00 GMT";
const TimePoint kAsked{seconds(100)};
const TimePoint kCame = kAsked + milliseconds(200);

TEST(ServerClock, ShowsTheSecondOfTheDateAndTheTimeThatTheReplyTook) {
  ServerClock clock;
  clock.Note(kNoonDate, kAsked, kCame);
  EXPECT_EQ(clock.At(kCame), (ServerClock::Range{kNoon, kNoon + milliseconds(1200)}));
  EXPECT_EQ(clock.At(kCame + seconds(9)),
            (ServerClock::Range{kNoon + seconds(9), kNoon + milliseconds(10'200)}));
}

TEST(ServerClock, SaysNothingBeforeAReplyHasADate) {
  ServerClock clock;
  EXPECT_FALSE(clock.At(kAsked).has_value());
  for (const char* const text : {"",
                                 "noon",
                                 "Wed, 02 Dec 2026 12:00:00",
                                 "Wed, 02 Dec 2026 12:00:00 GMT+1",
                                 "Wed, 31 Feb 2026 12:00:00 GMT",
                                 "Wed, 02 Dez 2026 12:00:00 GMT",
                                 "2026-12-02T12:00:00Z"}) {
    clock.Note(text, kAsked, kCame);
    EXPECT_FALSE(clock.At(kCame).has_value()) << text;
  }
}

// A process that was stopped reads an old header.
TEST(ServerClock, ForgetsNothingForAReplyThatWasReadLate) {
  ServerClock clock;
  clock.Note("Wed, 02 Dec 2026 11:00:00 GMT", kAsked, kAsked + seconds(6));
  EXPECT_FALSE(clock.At(kCame).has_value());
  clock.Note(kNoonDate, kAsked, kCame);
  clock.Note("Wed, 02 Dec 2026 11:00:00 GMT", kAsked, kAsked + seconds(6));
  EXPECT_EQ(clock.At(kCame)->earliest, kNoon);
}

}  // namespace
}  // namespace lockstep::control
