#include "operator/reconcile/failure/vain_meeting.h"

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// A gang of two that has run, of which worker 1 has left with exit code 0, and what worker 0 says.
TestWorld WorldOf(const TrainingJob& job, Phase phase) {
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-1", 0);
  world.ReportAll();
  world.observed.reports.at("mnist-worker-0").document.phase = phase;
  return world;
}

std::string RunningReason(const TestWorld& world) {
  return FindCondition(world.job.status, ConditionType::kRunning)->reason;
}

TEST(VainMeeting, IsSaidOnceOfARankThatLeftWhileAnotherMeets) {
  TestWorld world = WorldOf(MakeCommandJob(2), Phase::kRendezvous);
  EXPECT_EQ(world.Step().next_wakeup, world.now + kFarewellSeen);
  EXPECT_EQ(RunningReason(world), "GangRunning");
  world.now += kFarewellSeen;

  const Decision decision = world.Step();

  EXPECT_EQ(EventReasons(decision), "RankLeft");
  EXPECT_EQ(
      MessageOf(world.job.status, ConditionType::kRunning),
      "pod mnist-worker-1 (rank 1) ended with exit code 0, but 1 other rank waits for it in the "
      "rendezvous");
  EXPECT_EQ(EventReasons(world.Step()), "");
}

// Pods are asked one after the other, so not all have told in the same instant; and the warning is
// sent once.
TEST(VainMeeting, AllThatWaitAreCounted) {
  TrainingJob job = MakeCommandJob(3);
  job.spec.roles[0].processes = 2;
  TestWorld world = WorldOf(job, Phase::kRendezvous);
  world.Step();
  world.now += kFarewellSeen;
  RuntimeReport& other = world.observed.reports.at("mnist-worker-2");
  other.document.phase = Phase::kRendezvous;
  other.age = std::chrono::milliseconds(90);

  EXPECT_EQ(EventReasons(world.Step()), "RankLeft");
  EXPECT_EQ(
      MessageOf(world.job.status, ConditionType::kRunning),
      "pod mnist-worker-1 (rank 2) ended with exit code 0, but 4 other ranks wait for it in the "
      "rendezvous");
}

// What one said before the other left proves nothing.
TEST(VainMeeting, WhoMetBeforeItLeftIsNotCounted) {
  TestWorld world = WorldOf(MakeCommandJob(3), Phase::kRendezvous);
  world.Step();
  world.now += kFarewellSeen;
  RuntimeReport& other = world.observed.reports.at("mnist-worker-2");
  other.document.phase = Phase::kRendezvous;
  other.age = kFarewellSeen + std::chrono::milliseconds(1);
  world.Step();
  EXPECT_NE(MessageOf(world.job.status, ConditionType::kRunning).find("but 1 other rank waits"),
            std::string::npos);
}

// A parameter server, and programs of which one has less to do, wait in no meeting.
TEST(VainMeeting, IsNotSaidWhereNobodyMeets) {
  for (const Phase phase : {Phase::kStarting, Phase::kTraining}) {
    TestWorld world = WorldOf(MakeCommandJob(2), phase);
    world.Step();
    world.now += kFarewellSeen;
    world.Step();
    EXPECT_EQ(RunningReason(world), "GangRunning");
  }
}

// The process has given up, and its pod, which lives a moment longer, says that it trains.
TEST(VainMeeting, StandsUntilOneSaysThatItHasMet) {
  TestWorld world = WorldOf(MakeCommandJob(2), Phase::kRendezvous);
  world.now += kFarewellSeen;
  world.Step();
  ASSERT_EQ(RunningReason(world), "RankLeft");
  StatusDocument& document = world.observed.reports.at("mnist-worker-0").document;
  document.phase = Phase::kTraining;
  EXPECT_EQ(EventReasons(world.Step()), "");
  EXPECT_EQ(RunningReason(world), "RankLeft");
  document.backend = "tcp";
  world.Step();
  EXPECT_EQ(RunningReason(world), "GangRunning");
}

// What it said a while ago proves nothing about now.
TEST(VainMeeting, IsNotSaidOfAnOldReport) {
  TestWorld world = WorldOf(MakeCommandJob(2), Phase::kRendezvous);
  world.Step();
  world.Advance(kFarewellSeen);
  world.Step();
  EXPECT_EQ(RunningReason(world), "GangRunning");
}

}  // namespace
}  // namespace lockstep::control
