#include "operator/reconcile/failure/left_rank.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "common/contract/status/lost_peer.h"
#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/failure/vain_meeting.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

constexpr const char* kLeft = " exited with code 0 while other ranks still needed it: ";

TestWorld Launched(const TrainingJob& job) {
  TestWorld world(job);
  world.Launch();
  return world;
}

void Lose(TestWorld* world,
          const std::string& pod,
          const std::vector<int>& peers,
          const std::vector<int>& left_ranks = {}) {
  world->GiveUp(pod, "lockstep: " + DescribeLostPeers(peers, "closed"), left_ranks);
}

std::string WhyFailed(const TestWorld& world) {
  return MessageOf(world.job.status, ConditionType::kFailed);
}

bool Blames(const TestWorld& world, const std::string& who) {
  return WhyFailed(world).starts_with(who + kLeft) &&
         WhyFailed(world).find("cause program_exit") != std::string::npos;
}

// The story: worker 1 has fewer batches than worker 0, and is done first.
TEST(LeftRank, WhoLosesOneThatLeftFailsTheJobAsAnErrorOfTheProgram) {
  TestWorld world = Launched(MakeCommandJob(2));
  world.Exit("mnist-worker-1", 0);
  world.Step();
  Lose(&world, "mnist-worker-0", {1});

  const Decision decision = world.Step();

  EXPECT_TRUE(Blames(world, "pod mnist-worker-1 (rank 1)")) << WhyFailed(world);
  EXPECT_NE(WhyFailed(world).find("mnist-worker-0"), std::string::npos);
  EXPECT_EQ(DescribeRestarts(decision.status), "");
}

// Somebody on the node told it to, say, and it saved its work: nobody's error.
TEST(LeftRank, WhoWasToldToGoHasNotLeft) {
  TestWorld world = Launched(MakeCommandJob(2));
  world.Exit("mnist-worker-1", 0);
  TerminationMessage message;
  message.outcome = Outcome::kPreempted;
  message.reason = "all processes ended when asked to";
  world.Find("mnist-worker-1")->status.termination->message = EncodeTerminationMessage(message);
  Lose(&world, "mnist-worker-0", {1});
  EXPECT_EQ(DescribeRestarts(world.Step().status), "preempted=1");
}

// The kubelet of the lost one tells later.
TEST(LeftRank, ExitThatIsToldAfterTheLossIsWaitedFor) {
  TestWorld world = Launched(MakeCommandJob(2));
  Lose(&world, "mnist-worker-0", {1});
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
  world.Exit("mnist-worker-1", 0);
  world.Step();
  EXPECT_TRUE(Blames(world, "pod mnist-worker-1 (rank 1)")) << WhyFailed(world);
}

// Who gave up for it is lost by others in turn, perhaps mutually.
TEST(LeftRank, IsFoundBehindThoseThatGaveUpForIt) {
  TestWorld world = Launched(MakeCommandJob(3));
  world.Exit("mnist-worker-2", 0);
  Lose(&world, "mnist-worker-0", {1, 2});
  Lose(&world, "mnist-worker-1", {0});
  world.Step();
  EXPECT_TRUE(Blames(world, "pod mnist-worker-2 (rank 2)")) << WhyFailed(world);
}

TEST(LeftRank, OthersThatHaveNotEndedMayStillExplainTheLoss) {
  TestWorld world = Launched(MakeCommandJob(3));
  world.Exit("mnist-worker-2", 0);
  Lose(&world, "mnist-worker-0", {2});
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
  world.Advance(kEchoPatience);
  world.Step();
  EXPECT_TRUE(Blames(world, "pod mnist-worker-2 (rank 2)")) << WhyFailed(world);
}

// A role that wants its errors tried again has that, counted for what it is.
TEST(LeftRank, RestartPolicyDecidesAsOfAnyErrorOfTheProgram) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].restart_policy = RestartPolicy::kOnFailure;
  TestWorld world = Launched(job);
  world.Exit("mnist-worker-1", 0);
  Lose(&world, "mnist-worker-0", {1});
  EXPECT_EQ(DescribeRestarts(world.Step().status), "program_exit=1");
}

// One process of the pod has left: its runtime tells so.
TEST(LeftRank, ProcessOfAPodThatGoesOnCountsAsWell) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].processes = 2;
  TestWorld world = Launched(job);
  Lose(&world, "mnist-worker-0", {3});
  Lose(&world, "mnist-worker-1", {0, 3}, {3});
  world.Step();
  EXPECT_TRUE(Blames(world, "rank 3 of pod mnist-worker-1")) << WhyFailed(world);
}

TEST(LeftRank, MeetingThatRanOutAfterTheWarningIsItsFault) {
  TestWorld world = Launched(MakeCommandJob(2));
  world.Exit("mnist-worker-1", 0);
  world.ReportAll();
  world.observed.reports.at("mnist-worker-0").document.phase = Phase::kRendezvous;
  world.Step();
  world.now += kFarewellSeen;
  ASSERT_EQ(EventReasons(world.Step()), "RankLeft");
  world.observed.reports.at("mnist-worker-0").document.phase = Phase::kTraining;
  world.Step();  // as its pod tells that still lives when the process has ended
  world.GiveUp("mnist-worker-0", "rendezvous at epoch 2 timed out waiting for rank 1 at a:1");
  world.Step();
  EXPECT_TRUE(Blames(world, "pod mnist-worker-1 (rank 1)")) << WhyFailed(world);
}

// At the end of a training one is done first. What becomes of the others then is no fault of it.
TEST(LeftRank, WhoIsDoneFirstStaysASuccessAndIsNotBlamedForAnotherLoss) {
  const auto after = [](const auto& happens) {
    TestWorld world = Launched(MakeCommandJob(3));
    world.Exit("mnist-worker-1", 0);
    world.Step();
    happens(&world);
    world.Step();
    return WhyFailed(world) + DescribeRestarts(world.job.status);
  };
  EXPECT_EQ(after([](TestWorld* world) { world->Exit("mnist-worker-0", 137); }), "killed=1");
  EXPECT_EQ(after([](TestWorld* world) {
              world->Exit("mnist-worker-2", 137);
              Lose(world, "mnist-worker-0", {1, 2});
            }),
            "killed=1");
  EXPECT_EQ(after([](TestWorld* world) {
              world->Vanish("mnist-worker-2");
              Lose(world, "mnist-worker-0", {1, 2});
            }),
            "deleted=1");
  EXPECT_EQ(after([](TestWorld* world) {  // it has lost one that nobody tells of
              Lose(world, "mnist-worker-0", {1, 2});
              world->Step();
              world->Advance(kEchoPatience);
            }),
            "unreachable=1");
  EXPECT_EQ(after([](TestWorld* world) {  // for reasons of its own
              world->Exit("mnist-worker-0", kExitRetryable);
            }),
            "unreachable=1");
  EXPECT_EQ(after([](TestWorld* world) { world->Exit("mnist-worker-0", 0); }), "");
}

TEST(LeftRank, JobSucceedsOnceTheOthersAreDoneAsWell) {
  TestWorld world = Launched(MakeCommandJob(2));
  world.Exit("mnist-worker-1", 0);
  world.Step();
  world.Exit("mnist-worker-0", 0);
  world.Step();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kSucceeded));
}

TestWorld Met(int workers) {
  TestWorld world = Launched(MakeCommandJob(workers));
  world.ReportMeeting();
  return world;
}

bool HasSucceeded(const TestWorld& world) {
  return IsTrue(world.job.status, ConditionType::kSucceeded);
}

// Worker 0 is done first, and its kubelet tells so first: its exit code decides the job.
TEST(LeftRank, WhoDecidesTheJobAndLeavesEarlyFailsItAsAnyOther) {
  for (const bool is_told_first : {true, false}) {
    TestWorld world = Met(2);
    world.Exit("mnist-worker-0", 0);
    if (is_told_first) {
      world.Step();
      EXPECT_FALSE(HasSucceeded(world));
    }
    Lose(&world, "mnist-worker-1", {0});
    world.Step();
    EXPECT_TRUE(Blames(world, "pod mnist-worker-0 (rank 0)")) << WhyFailed(world);
  }
}

// A program of some milliseconds ends before anybody has asked how it is.
TEST(LeftRank, WhoDecidesTheJobIsMissedByThoseOfWhomNothingIsKnownYet) {
  TestWorld world = Launched(MakeCommandJob(3));
  world.Exit("mnist-worker-0", 0);
  EXPECT_EQ(world.Step().next_wakeup, world.now + kFarewellSeen);
  EXPECT_FALSE(HasSucceeded(world));
  Lose(&world, "mnist-worker-1", {0});
  Lose(&world, "mnist-worker-2", {0});
  world.Step();
  EXPECT_TRUE(Blames(world, "pod mnist-worker-0 (rank 0)")) << WhyFailed(world);

  for (const bool tells_before : {true, false}) {
    TestWorld silent = Launched(MakeCommandJob(2));
    if (tells_before) {
      silent.ReportAll();
      silent.observed.reports.at("mnist-worker-1").age = std::chrono::milliseconds(1);
    }
    silent.Exit("mnist-worker-0", 0);
    silent.Step();
    EXPECT_FALSE(HasSucceeded(silent));
    silent.Advance(kFarewellSeen);
    silent.Step();
    EXPECT_TRUE(HasSucceeded(silent)) << "nobody hears of it whether it has met";
  }
}

TEST(LeftRank, WhoDecidesTheJobIsMissedInAMeetingThatRunsOut) {
  TestWorld world = Met(2);
  world.Exit("mnist-worker-0", 0);
  world.observed.reports.at("mnist-worker-1").document.phase = Phase::kRendezvous;
  world.Step();
  world.now += 2 * kFarewellSeen;
  ASSERT_EQ(EventReasons(world.Step()), "RankLeft");
  EXPECT_FALSE(HasSucceeded(world));
  world.GiveUp("mnist-worker-1", "rendezvous at epoch 2 timed out waiting for rank 0 at a:1");
  world.Step();
  EXPECT_TRUE(Blames(world, "pod mnist-worker-0 (rank 0)")) << WhyFailed(world);
}

TEST(LeftRank, WhoDecidesTheJobAndIsMissedByNobodyHasSucceeded) {
  TestWorld world = Met(2);
  world.Exit("mnist-worker-0", 0);
  world.Step();
  ASSERT_FALSE(HasSucceeded(world));
  world.Exit("mnist-worker-1", 0);
  world.Step();
  EXPECT_TRUE(HasSucceeded(world)) << "all are done";

  TestWorld lingering = Met(2);
  lingering.Exit("mnist-worker-0", 0);
  lingering.Step();
  lingering.Advance(2 * kFarewellSeen);
  lingering.Step();
  EXPECT_TRUE(HasSucceeded(lingering)) << "the other works on, and meets nobody";

  TestWorld finished = Met(2);
  finished.observed.reports.at("mnist-worker-1").document.phase = Phase::kSucceeded;
  finished.Exit("mnist-worker-0", 0);
  finished.Step();
  EXPECT_TRUE(HasSucceeded(finished)) << "it says that all work is done";

  TestWorld strangers = Launched(MakeCommandJob(2));
  strangers.ReportAll();
  strangers.Exit("mnist-worker-0", 0);
  strangers.Step();
  EXPECT_TRUE(HasSucceeded(strangers)) << "they have never met";
}

// successPolicy ChiefOrWorker0 forgives it.
TEST(LeftRank, FailureOfAnotherAfterTheDecidingSuccessIsForgiven) {
  TestWorld world = Met(2);
  world.Exit("mnist-worker-0", 0);
  world.Step();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  EXPECT_TRUE(HasSucceeded(world));
}

// It was lost before: its successor found that all was done, and joined nobody.
TEST(LeftRank, SuccessorThatJoinedNobodyIsNotTheOneThatWasLost) {
  TestWorld world = Launched(MakeCommandJob(3));
  world.ReportAll();
  for (auto& [pod, report] : world.observed.reports) {
    report.document.backend = "tcp";
  }
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.RunAll();
  world.Step();
  ASSERT_NE(world.Find("mnist-worker-1-r1"), nullptr);
  world.Exit("mnist-worker-1-r1", 0);
  Lose(&world, "mnist-worker-0", {1});
  world.Step();
  EXPECT_EQ(WhyFailed(world), "");
}

// All were done, and it was killed on its way out: those that its successor waits for left after
// that.
TEST(LeftRank, SuccessorThatNobodyMeetsBlamesNobodyThatWasDone) {
  TestWorld world = Launched(MakeCommandJob(2));
  world.ReportAll();
  for (auto& [pod, report] : world.observed.reports) {
    report.document.backend = "tcp";
  }
  world.Exit("mnist-worker-0", 137);
  world.Step();
  world.RunAll();
  world.Step();
  ASSERT_NE(world.Find("mnist-worker-0-r1"), nullptr);
  world.Exit("mnist-worker-1", 0);
  world.ReportAll();
  world.observed.reports.at("mnist-worker-0-r1").document.phase = Phase::kRendezvous;
  world.Step();
  world.now += kFarewellSeen;
  ASSERT_EQ(EventReasons(world.Step()), "RankLeft");
  world.GiveUp("mnist-worker-0-r1", "rendezvous at epoch 2 timed out waiting for rank 1 at a:1");
  world.Step();
  EXPECT_EQ(WhyFailed(world), "");
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1 unreachable=1");
}

}  // namespace
}  // namespace lockstep::control
