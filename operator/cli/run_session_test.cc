#include "operator/cli/run_session.h"

#include <signal.h>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(StopAfterSignal, FirstAsksAndAnotherKills) {
  EXPECT_EQ(StopAfterSignal(Stop::kNone, SIGINT), Stop::kGraceful);
  EXPECT_EQ(StopAfterSignal(Stop::kGraceful, SIGINT), Stop::kKill);
  EXPECT_EQ(StopAfterSignal(Stop::kGraceful, SIGTERM), Stop::kKill);
  EXPECT_EQ(StopAfterSignal(Stop::kKill, SIGINT), Stop::kKill);
}

TEST(StopAfterSignal, TerminalThatGoesAwayTwiceIsAskedOnce) {
  EXPECT_EQ(StopAfterSignal(Stop::kNone, SIGHUP), Stop::kGraceful);
  EXPECT_EQ(StopAfterSignal(Stop::kGraceful, SIGHUP), Stop::kGraceful);
  EXPECT_EQ(StopAfterSignal(Stop::kKill, SIGHUP), Stop::kKill);
}

}  // namespace
}  // namespace lockstep::control
