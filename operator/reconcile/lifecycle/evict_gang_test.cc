#include "operator/reconcile/lifecycle/evict_gang.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

const EvictionOrder kOrder{"team/urgent", 1000, "vision", false};

TEST(EvictGang, RanksAreToldToSaveAndGetTheirGraceAndNothingIsCounted) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  const Attempt attempt = world.job.status.attempt;
  world.observed.eviction = kOrder;

  const Decision decision = world.Step();

  std::string told;
  for (const Effect& effect : decision.effects) {
    if (const auto* const send = std::get_if<SendControl>(&effect)) {
      EXPECT_EQ(send->message.kind, ControlKind::kStop);
      EXPECT_EQ(send->message.attempt, attempt) << "else the pod takes it for another gang's";
      told += send->pod + " ";
    } else if (const auto* const deletion = std::get_if<DeletePod>(&effect)) {
      EXPECT_EQ(deletion->grace, world.Find(deletion->name)->spec.termination_grace);
    }
  }
  EXPECT_EQ(told, "mnist-worker-0 mnist-worker-1 ");
  EXPECT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-");
  const TrainingJobStatus& status = decision.status;
  EXPECT_TRUE(status.placement.empty());
  EXPECT_EQ(status.attempt, attempt.Next());
  EXPECT_EQ(status.preemptions, 1);
  EXPECT_EQ(DescribeRestarts(status), "");
  EXPECT_TRUE(status.incidents.empty());
  EXPECT_EQ(status.quick_restarts, 0);
  EXPECT_FALSE(status.retry_at.has_value());
  EXPECT_FALSE(IsTrue(status, ConditionType::kRunning));
  EXPECT_EQ(ReasonOf(status, ConditionType::kScheduled), "Preempted");
  EXPECT_EQ(MessageOf(status, ConditionType::kScheduled),
            "preempted by team/urgent of priority 1000");
  EXPECT_NE(EventReasons(decision).find("Preempted"), std::string::npos);
}

TEST(EvictGang, WhoHasGoneStartsAnewWhenThereIsRoom) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.observed.eviction = kOrder;
  world.Step();
  world.observed.eviction.reset();
  world.observed.round = Unschedulable{Constraint::kGpu, "needs 2 GPUs, 0 free"};
  world.Step();
  EXPECT_EQ(ReasonOf(world.job.status, ConditionType::kScheduled), "Preempted")
      << "its pods are still there";
  world.FinishDeletions();
  world.Step();
  EXPECT_EQ(ReasonOf(world.job.status, ConditionType::kScheduled), "Unschedulable");

  world.observed.round.reset();
  world.Launch();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kRunning));
  EXPECT_EQ(world.job.status.preemptions, 1);
}

TEST(EvictGang, WaitThatOthersCauseIsNotCountedByAnyLimitOfTime) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.run_policy.active_deadline = std::chrono::seconds(600);
  world.job.spec.scheduling.timeout = std::chrono::seconds(60);
  world.Launch();
  world.observed.eviction = kOrder;
  world.Step();
  world.observed.eviction.reset();
  world.FinishDeletions();
  world.observed.round = Unschedulable{Constraint::kGpu, "needs 2 GPUs, 0 free"};
  const WallTime started = *world.job.status.start_time;
  world.now += std::chrono::hours(5);
  world.Step();
  EXPECT_FALSE(HasEnded(world.job.status)) << MessageOf(world.job.status, ConditionType::kFailed);
  EXPECT_FALSE(ActiveDeadline(world.job.spec.run_policy, world.job.status, {}).has_value());

  world.observed.round.reset();
  world.Launch();
  EXPECT_EQ(*world.job.status.start_time, started + std::chrono::hours(5));
  EXPECT_FALSE(world.job.status.preempted_at.has_value());
  world.now += std::chrono::seconds(601);
  world.Step();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kFailed)) << "time that it ran does count";
}

// Its queue's limit, or its own, may be another one by now.
TEST(EvictGang, WhoHadRunForLongerThanItMayDoesNotWaitForPlacesAgain) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.now += std::chrono::seconds(700);
  world.observed.eviction = kOrder;
  world.Step();
  world.observed.eviction.reset();
  world.FinishDeletions();
  world.job.spec.run_policy.active_deadline = std::chrono::seconds(600);
  world.Step();
  EXPECT_EQ(ReasonOf(world.job.status, ConditionType::kFailed), "DeadlineExceeded");
}

// An earlier version writes the field back as it found it, and does not know what it means.
TEST(EvictGang, TimeThatAGangRanUnderAnEarlierVersionCounts) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.run_policy.active_deadline = std::chrono::seconds(600);
  world.Launch();
  const WallTime started = *world.job.status.start_time;
  world.job.status.preempted_at = started - std::chrono::seconds(30);
  world.now += std::chrono::seconds(300);
  TestWorld restarting = world;
  world.Step();
  EXPECT_FALSE(world.job.status.preempted_at.has_value());
  EXPECT_EQ(ActiveDeadline(world.job.spec.run_policy, world.job.status, {}),
            started + std::chrono::seconds(600));

  SetCondition(&restarting.job.status,
               {ConditionType::kScheduled, false, "GangRestart", "by that version"},
               restarting.now);
  restarting.job.status.placement.clear();
  restarting.job.status.attempt = restarting.job.status.attempt.Next();
  restarting.Step();
  restarting.FinishDeletions();
  restarting.Launch();
  EXPECT_FALSE(restarting.job.status.placement.empty());
  EXPECT_EQ(*restarting.job.status.start_time, started);
}

TEST(EvictGang, WaitThatBeganUnderAnEarlierVersionIsNotCountedEither) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.run_policy.active_deadline = std::chrono::seconds(600);
  world.Launch();
  const WallTime started = *world.job.status.start_time;
  world.observed.eviction = kOrder;
  world.Step();
  world.observed.eviction.reset();
  world.job.status.preempted_at.reset();
  world.FinishDeletions();
  world.now += std::chrono::hours(5);
  world.Launch();
  EXPECT_FALSE(HasEnded(world.job.status)) << MessageOf(world.job.status, ConditionType::kFailed);
  EXPECT_EQ(*world.job.status.start_time, started + std::chrono::hours(5));
}

TEST(EvictGang, JobThatHasFailedWaitsNoMore) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.observed.eviction = kOrder;
  world.Step();
  world.observed.eviction.reset();
  world.FinishDeletions();
  world.observed.is_one_machine = true;  // where whoever finds no room has failed
  world.observed.round = Unschedulable{Constraint::kGpu, "needs 2 GPUs, 0 free"};
  world.Step();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kFailed));
  EXPECT_FALSE(world.job.status.preempted_at.has_value());
}

// A rank of an earlier gang that comes late to a meeting, or hears an old order, must see it.
TEST(EvictGang, WhatOrdersTheGangsGoesOnAndSoDoesTheCheckpoint) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.status.progress = JobProgress{};
  world.job.status.progress->step = 130;
  world.job.status.progress->checkpoint_step = 100;
  const TrainingJobStatus before = world.job.status;
  world.observed.eviction = kOrder;
  std::vector<int64_t> counters;
  for (const Effect& effect : world.Step().effects) {
    if (const auto* const send = std::get_if<SendControl>(&effect)) {
      counters.push_back(send->message.counter);
    }
  }
  EXPECT_EQ(counters,
            (std::vector<int64_t>{before.control_counter + 1, before.control_counter + 2}));
  world.observed.eviction.reset();
  world.FinishDeletions();
  world.Launch();

  const TrainingJobStatus& after = world.job.status;
  ASSERT_TRUE(IsTrue(after, ConditionType::kRunning));
  EXPECT_EQ(after.control_counter, before.control_counter + 2) << "an old order stays old";
  EXPECT_EQ(after.attempt, before.attempt.Next());
  EXPECT_EQ(after.epoch, before.epoch.Next());
  ASSERT_TRUE(after.progress.has_value());
  EXPECT_EQ(after.progress->checkpoint_step, 100);
}

TEST(EvictGang, NothingIsSaidOfItOnceTheGangRunsAgain) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  ASSERT_TRUE(IsTrue(world.job.status, ConditionType::kRestarting));
  world.observed.eviction = kOrder;
  world.Step();
  EXPECT_EQ(ReasonOf(world.job.status, ConditionType::kRestarting), "Preempted");
  world.observed.eviction.reset();
  world.FinishDeletions();
  world.Launch();

  ASSERT_TRUE(IsTrue(world.job.status, ConditionType::kRunning));
  for (const Condition& condition : world.job.status.conditions) {
    EXPECT_EQ(condition.message.find("preempted"), std::string::npos)
        << ConditionTypeName(condition.type) << ": " << condition.message;
  }
}

TEST(EvictGang, QueueOfTheOneThatGoesCountsIt) {
  TestWorld world(MakeTrainingJob(1));
  world.job.spec.scheduling.queue = "speech";
  world.Launch();
  world.observed.eviction = kOrder;
  EXPECT_EQ(world.Step().metrics,
            (std::vector<MetricDelta>{{Metric::kPreemptions, "priority", 1, "speech"}}));
}

TEST(EvictGang, RoomThatWasBorrowedIsTakenBackInTheNameOfItsQueue) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  world.observed.eviction = EvictionOrder{"team/other", 0, "vision", true};

  EXPECT_EQ(MessageOf(world.Step().status, ConditionType::kScheduled),
            "preempted by team/other, whose queue vision takes back what other queues borrowed");
}

TEST(EvictGang, JobThatIsDoneIsDone) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  world.observed.eviction = kOrder;

  const TrainingJobStatus status = world.Step().status;
  EXPECT_TRUE(IsTrue(status, ConditionType::kSucceeded));
  EXPECT_EQ(status.preemptions, 0);
}

TEST(EvictGang, ThatOthersGoIsToldOnceHoweverManyTheyAre) {
  TestWorld world(MakeTrainingJob(1));
  for (const char* const left : {"2 gangs to end: team/a, team/b", "1 gang to end: team/b"}) {
    world.observed.round = Unschedulable{Constraint::kPreemption, std::string("waits for ") + left};
    const Decision waiting = world.Step();
    EXPECT_EQ(EventReasons(waiting).find("WaitsForOthersToGo") != std::string::npos,
              std::string(left).starts_with("2"));
    EXPECT_EQ(MessageOf(waiting.status, ConditionType::kScheduled),
              std::string("waits for ") + left);
  }
}

TEST(EvictGang, ClaimIsInTheStatusWhileOthersGoAndNoLonger) {
  TestWorld world(MakeTrainingJob(1));
  const RoomClaim claim{world.now, {{"team/low", "uid", Attempt()}}, {{"worker-0", "node-a"}}};
  world.observed.claim = claim;
  world.observed.round =
      Unschedulable{Constraint::kPreemption, "waits for 1 gang to end: team/low"};
  const Decision waiting = world.Step();
  EXPECT_EQ(waiting.status.claim, claim);
  EXPECT_EQ(ReasonOf(waiting.status, ConditionType::kScheduled), "WaitsForOthersToGo");
  EXPECT_NE(EventReasons(waiting).find("WaitsForOthersToGo"), std::string::npos);

  TestWorld suspended = world;
  suspended.job.spec.run_policy.suspend = true;
  ++suspended.job.metadata.generation;
  EXPECT_FALSE(suspended.Step().status.claim.has_value());

  TestWorld refused = world;
  refused.observed.claim.reset();
  refused.observed.round = Unschedulable{Constraint::kGpu, "needs 1 GPU, 0 free"};
  EXPECT_FALSE(refused.Step().status.claim.has_value());

  world.observed.round.reset();
  EXPECT_FALSE(world.Step().status.claim.has_value());
  EXPECT_FALSE(world.job.status.placement.empty());
}

}  // namespace
}  // namespace lockstep::control
