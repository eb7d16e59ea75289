#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

// What a job makes of the answer of a scheduling round.

namespace lockstep::control {
namespace {

using std::chrono::seconds;

Unschedulable BehindJob(const std::string& name) {
  return {Constraint::kQueue, "waits behind " + name + ", which needs 8 GPUs"};
}

TEST(DecideRound, WhatWasGrantedIsWhereItGoes) {
  TestWorld world(MakeTrainingJob(2));
  world.AddNode("node-b");
  world.observed.round = Plan{{{"worker-0", "node-b"}, {"worker-1", "node-a"}}};

  world.Step();

  ASSERT_EQ(world.job.status.placement.size(), 2U);
  EXPECT_EQ(world.job.status.placement[0].node, "node-b");
  EXPECT_EQ(world.job.status.placement[1].node, "node-a");
}

TEST(DecideRound, WhatItsQueueMayNotHoldIsAReasonOfItsOwn) {
  TestWorld world(MakeTrainingJob(1));
  world.observed.round = Unschedulable{Constraint::kQuota, "queue vision does not exist"};

  const Decision decision = world.Step();

  EXPECT_EQ(FindCondition(decision.status, ConditionType::kScheduled)->reason, "WaitsForQuota");
  EXPECT_EQ(EventReasons(decision), "JobCreated WaitsForQuota");
}

// A reader of events is not to wonder where the larger need comes from.
TEST(DecideRound, EventOfAWaitSaysWhatTheClusterAddedAndIsToldOnce) {
  TestWorld world(MakeTrainingJob(1));
  world.job.status.admitted = {{Role::kWorker, "memory", int64_t{2} << 30}};
  world.job.status.observed_generation = world.job.metadata.generation;
  world.observed.round = Unschedulable{Constraint::kQuota, "queue vision does not exist"};

  const Event told = world.Step().events.back();

  EXPECT_EQ(told.message,
            "queue vision does not exist; a LimitRange or a webhook raised the requests of earlier "
            "pods above the template's (worker has 2 GiB memory). To have the requests checked "
            "again, edit the spec, or suspend and resume the job");
  EXPECT_EQ(MessageOf(world.job.status, ConditionType::kScheduled), told.message);
  EXPECT_EQ(EventReasons(world.Step()), "");
}

// The job was edited between the round and its turn.
TEST(DecideRound, GrantForAnotherGangIsNotTaken) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.round = Plan{{{"worker-0", "node-a"}}};

  world.Step();

  EXPECT_TRUE(world.job.status.placement.empty());
}

TEST(DecideRound, JobThatWaitsItsTurnSaysBehindWhom) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.observed.round = BehindJob("default/big");

  const Decision decision = world.Step();

  EXPECT_EQ(world.Pods(), "");
  EXPECT_EQ(FindCondition(decision.status, ConditionType::kScheduled)->reason, "WaitsInQueue");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kScheduled),
            "waits behind default/big, which needs 8 GPUs");
}

// Nobody need be ahead of it, and a moment later it is told what it waits for.
TEST(DecideRound, JobSaysWhereItStandsInItsQueueUntilItHasItsPlaces) {
  const QueuePosition third{"vision", 3, WallTime{seconds(1'000'020)}};
  TestWorld world(MakeTrainingJob(2));
  world.observed.round = BehindJob("default/big");
  world.observed.queue_position = third;
  EXPECT_EQ(world.Step().status.queue, third);

  world.job.spec.run_policy.suspend = true;
  EXPECT_FALSE(world.Step().status.queue.has_value()) << "it wants no places";
  world.job.spec.run_policy.suspend = false;
  EXPECT_EQ(world.Step().status.queue, third);

  world.observed.round.reset();
  EXPECT_FALSE(world.Step().status.queue.has_value()) << "it has its places";
}

TEST(DecideRound, JobThatHasEndedIsInNoQueue) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.scheduling.timeout = seconds(60);
  world.observed.round = BehindJob("default/big");
  world.observed.queue_position = QueuePosition{"vision", 3, std::nullopt};
  world.Step();
  world.Advance(seconds(60));
  const Decision decision = world.Step();
  ASSERT_TRUE(HasEnded(decision.status));
  EXPECT_FALSE(decision.status.queue.has_value());
}

TEST(DecideRound, JobThatNoRoundHasLookedAtSaysSoAndNothingOfOlderJobs) {
  TestWorld world(MakeTrainingJob(3));
  world.observed.round = AwaitsRound();

  const Decision decision = world.Step();

  EXPECT_EQ(FindCondition(decision.status, ConditionType::kScheduled)->reason, "WaitsForRound");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kScheduled),
            "waits for the next round of scheduling");
  EXPECT_EQ(EventReasons(decision), "JobCreated");
  world.observed.round = BehindJob("default/first");
  EXPECT_EQ(EventReasons(world.Step()), "WaitsInQueue");
}

// Who is ahead changes as jobs come and go, and an event cannot be taken back.
TEST(DecideRound, JobThatWaitsItsTurnIsToldOfOnceInWordsThatStayTrue) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.observed.round = BehindJob("default/first");

  const Decision first = world.Step();
  world.observed.round = BehindJob("default/second");
  const Decision second = world.Step();

  EXPECT_EQ(first.events.back().reason, "WaitsInQueue");
  EXPECT_EQ(first.events.back().message.find("default/"), std::string::npos);
  EXPECT_EQ(EventReasons(second), "");
  EXPECT_EQ(MessageOf(second.status, ConditionType::kScheduled),
            "waits behind default/second, which needs 8 GPUs");
}

TEST(DecideRound, WhoComesFirstIsToldByTheOrderingOfTheQueue) {
  const auto told = [](QueueOrder order) {
    TestWorld world(MakeTrainingJob(3));
    world.observed.round = BehindJob("default/first");
    world.observed.queue_order = order;
    const std::string text = world.Step().events.back().message;
    return text.substr(0, text.find(';'));
  };

  EXPECT_EQ(told(QueueOrder::kFifo), "older jobs come first");
  EXPECT_EQ(told(QueueOrder::kPriority), "jobs of higher priority come first, then older jobs");
  EXPECT_EQ(told(QueueOrder::kFairShare),
            "jobs of namespaces that use less come first, then older jobs");
}

}  // namespace
}  // namespace lockstep::control
