#include "operator/cli/run/stop_stage.h"

#include <csignal>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

StopStage StageAfter(const std::vector<int>& signals) {
  StopStage stage = StopStage::kNone;
  for (const int signal : signals) {
    stage = AfterSignal(stage, signal);
  }
  return stage;
}

TEST(StopStage, TheSecondRequestOfAPersonKills) {
  EXPECT_EQ(StageAfter({SIGINT}), StopStage::kGraceful);
  EXPECT_EQ(StageAfter({SIGINT, SIGINT}), StopStage::kKill);
  EXPECT_EQ(StageAfter({SIGTERM, SIGTERM}), StopStage::kKill);
  EXPECT_EQ(StageAfter({SIGHUP, SIGINT}), StopStage::kKill);
}

// A terminal that is closed hangs up more than once.
TEST(StopStage, AHangUpAsksAndNeverKills) {
  EXPECT_EQ(StageAfter({SIGHUP}), StopStage::kGraceful);
  EXPECT_EQ(StageAfter({SIGHUP, SIGHUP, SIGHUP}), StopStage::kGraceful);
  EXPECT_EQ(StageAfter({SIGINT, SIGHUP}), StopStage::kGraceful);
  EXPECT_EQ(StageAfter({SIGINT, SIGINT, SIGHUP}), StopStage::kKill);
}

}  // namespace
}  // namespace lockstep::control
