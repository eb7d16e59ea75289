#include "operator/cli/stop_stage.h"

#include <csignal>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

StopStage After(const std::vector<int>& signals) {
  StopStage stage = StopStage::kNone;
  for (const int signal : signals) {
    stage = AfterSignal(stage, signal);
  }
  return stage;
}

TEST(StopStage, TheSecondRequestOfAPersonKills) {
  EXPECT_EQ(After({SIGINT}), StopStage::kGraceful);
  EXPECT_EQ(After({SIGINT, SIGINT}), StopStage::kKill);
  EXPECT_EQ(After({SIGTERM, SIGTERM}), StopStage::kKill);
  EXPECT_EQ(After({SIGHUP, SIGINT}), StopStage::kKill);
}

// A terminal that is closed hangs up more than once.
TEST(StopStage, AHangUpAsksAndNeverKills) {
  EXPECT_EQ(After({SIGHUP}), StopStage::kGraceful);
  EXPECT_EQ(After({SIGHUP, SIGHUP, SIGHUP}), StopStage::kGraceful);
  EXPECT_EQ(After({SIGINT, SIGHUP}), StopStage::kGraceful);
  EXPECT_EQ(After({SIGINT, SIGINT, SIGHUP}), StopStage::kKill);
}

}  // namespace
}  // namespace lockstep::control
