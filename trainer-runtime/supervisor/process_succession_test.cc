#include "trainer-runtime/supervisor/process_succession.h"

#include <csignal>

#include <gtest/gtest.h>

#include "common/contract/environment/supervised_place.h"

namespace lockstep::runtime {
namespace {

SupervisorEvent Killed(int local_rank = 0) {
  return {SupervisorEvent::Kind::kEnded, local_rank, 1, 137, SIGKILL};
}

SupervisorEvent Exited(int exit_code) {
  return {SupervisorEvent::Kind::kEnded, 0, 1, exit_code, 0};
}

TEST(ProcessSuccession, OnlyWhatASignalEndedGetsASuccessor) {
  ProcessSuccession succession(2, true);
  EXPECT_FALSE(succession.WantsAgain(Exited(1), Step(0)));
  EXPECT_FALSE(succession.WantsAgain(Exited(137), Step(0)));
  EXPECT_TRUE(succession.WantsAgain(Killed(), Step(0)));
}

TEST(ProcessSuccession, ASecondLossWithoutAStepGetsNone) {
  ProcessSuccession succession(2, true);
  EXPECT_TRUE(succession.WantsAgain(Killed(0), Step(7)));
  EXPECT_FALSE(succession.WantsAgain(Killed(1), Step(7)));
  EXPECT_TRUE(succession.WantsAgain(Killed(1), Step(8)));
}

TEST(ProcessSuccession, NobodyGetsOneWhereTheJobDoesNotRestart) {
  ProcessSuccession succession(1, false);
  EXPECT_FALSE(succession.WantsAgain(Killed(), Step(0)));
}

TEST(ProcessSuccession, StartsAreNumberedAndBounded) {
  ProcessSuccession succession(2, true);
  EXPECT_EQ(succession.CountStart(1), 0);
  EXPECT_EQ(succession.CountStart(1), 1);
  EXPECT_EQ(succession.CountStart(0), 0);
  while (succession.CountStart(1) < kStartsPerPodMax - 1) {
  }
  EXPECT_FALSE(succession.WantsAgain(Killed(1), Step(1)));
  EXPECT_TRUE(succession.WantsAgain(Killed(0), Step(1)));
}

}  // namespace
}  // namespace lockstep::runtime
