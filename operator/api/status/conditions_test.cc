#include "operator/api/status/conditions.h"

#include <array>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/api/job/job_names.h"

namespace lockstep::control {
namespace {

WallTime At(int second) {
  return WallTime(std::chrono::seconds(second));
}

ConditionChange True(ConditionType type) {
  return {type, true, "Reason", "message"};
}

TEST(SetCondition, TransitionTimeMovesOnlyWithTheTruth) {
  TrainingJobStatus status;
  EXPECT_TRUE(SetCondition(&status, True(ConditionType::kRunning), At(1)));
  EXPECT_FALSE(SetCondition(&status, True(ConditionType::kRunning), At(2)));
  EXPECT_TRUE(
      SetCondition(&status, {ConditionType::kRunning, true, "Reason", "other words"}, At(3)));
  const Condition* running = FindCondition(status, ConditionType::kRunning);
  ASSERT_NE(running, nullptr);
  EXPECT_EQ(running->last_transition, At(1));
  EXPECT_EQ(running->message, "other words");
  EXPECT_TRUE(
      SetCondition(&status, {ConditionType::kRunning, false, "Reason", "other words"}, At(4)));
  EXPECT_EQ(running->last_transition, At(4));
}

TEST(SetCondition, ActivitiesExcludeEachOther) {
  TrainingJobStatus status;
  SetCondition(&status, True(ConditionType::kRunning), At(1));
  SetCondition(&status, True(ConditionType::kRestarting), At(2));
  EXPECT_FALSE(IsTrue(status, ConditionType::kRunning));
  EXPECT_TRUE(IsTrue(status, ConditionType::kRestarting));
  EXPECT_EQ(StateWord(status), "Restarting");
}

TEST(SetCondition, SuccessEndsActivityAndLatches) {
  TrainingJobStatus status;
  SetCondition(&status, True(ConditionType::kRunning), At(1));
  SetCondition(&status, True(ConditionType::kSucceeded), At(2));
  EXPECT_TRUE(HasEnded(status));
  EXPECT_FALSE(IsTrue(status, ConditionType::kRunning));

  const TrainingJobStatus ended = status;
  EXPECT_FALSE(SetCondition(&status, True(ConditionType::kFailed), At(3)));
  EXPECT_FALSE(SetCondition(&status, True(ConditionType::kRunning), At(3)));
  EXPECT_FALSE(SetCondition(&status, {ConditionType::kSucceeded, false, "", ""}, At(3)));
  EXPECT_EQ(status, ended);
}

// Whatever is set in whatever order, the rules between conditions hold.
TEST(SetCondition, RandomChangesNeverBreakTheRules) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    TrainingJobStatus status;
    bool had_ended = false;
    for (int i = 0; i < 30; ++i) {
      const ConditionType type = kConditionTypeNames[prng.Below(kConditionTypeNames.size())].first;
      const TrainingJobStatus before = status;
      SetCondition(&status, {type, prng.Below(4) != 0, "R", "m"}, At(i));
      ASSERT_FALSE(IsTrue(status, ConditionType::kSucceeded) &&
                   IsTrue(status, ConditionType::kFailed))
          << "seed " << seed;
      const int activities = IsTrue(status, ConditionType::kRunning) +
                             IsTrue(status, ConditionType::kRestarting) +
                             IsTrue(status, ConditionType::kSuspended);
      ASSERT_LE(activities, HasEnded(status) ? 0 : 1) << "seed " << seed;
      if (had_ended) {
        ASSERT_EQ(status, before) << "seed " << seed;
      }
      had_ended = HasEnded(status);
    }
  }
}

TEST(SetCondition, JobThatEndsWithoutAPlaceWaitsForNothingAnyMore) {
  TrainingJobStatus status;
  SetCondition(&status, {ConditionType::kScheduled, false, "Unschedulable", "asks others"}, At(1));
  SetCondition(&status, {ConditionType::kFailed, true, "SchedulingTimeout", "no room"}, At(2));
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  EXPECT_FALSE(scheduled->is_true);
  EXPECT_EQ(scheduled->reason, "SchedulingTimeout");
  EXPECT_EQ(scheduled->message, "no room");
  EXPECT_EQ(scheduled->last_transition, At(1));
}

TEST(SetCondition, JobThatEndsInItsPlacesHasHadThem) {
  TrainingJobStatus status;
  SetCondition(&status, {ConditionType::kScheduled, true, "GangPlaced", "on 2 nodes"}, At(1));
  SetCondition(&status, {ConditionType::kFailed, true, "PodFailed", "exit 1"}, At(2));
  EXPECT_EQ(FindCondition(status, ConditionType::kScheduled)->message, "on 2 nodes");
}

TEST(StateWord, JobWaitsUntilItHasPlacesAndStartsUntilItRuns) {
  TrainingJobStatus status;
  EXPECT_EQ(StateWord(status), "Waiting");
  SetCondition(&status, True(ConditionType::kCreated), At(1));
  EXPECT_EQ(StateWord(status), "Waiting");
  SetCondition(&status, True(ConditionType::kScheduled), At(2));
  EXPECT_EQ(StateWord(status), "Starting");
  SetCondition(&status, True(ConditionType::kGpuAssignment), At(3));
  EXPECT_EQ(StateWord(status), "Starting");
  SetCondition(&status, True(ConditionType::kRunning), At(4));
  EXPECT_EQ(StateWord(status), "Running");
}

}  // namespace
}  // namespace lockstep::control
