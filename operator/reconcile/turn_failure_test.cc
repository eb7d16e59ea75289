#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST(DecideReplace, KilledRankIsReplacedWhileSurvivorsRun) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-1", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision),
            "create pod mnist-worker-1-r1 on node node-a\n"
            "tell pod mnist-worker-0: peer_gone rank 1, epoch 1\n"
            "tell pod mnist-worker-2: peer_gone rank 1, epoch 1\n");
  EXPECT_EQ(DescribeRestarts(decision.status), "killed=1");
  EXPECT_EQ(decision.status.epoch, Epoch(1));
  EXPECT_EQ(decision.status.attempt, Attempt(0));
  EXPECT_EQ(decision.status.placement[1].incarnation, Incarnation(1));
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled Restarting");
  EXPECT_EQ(decision.events.front().message,
            "pod mnist-worker-1 (rank 1) killed by SIGKILL (exit code 137), cause killed; incident "
            "1 of 6 allowed");
}

TEST(DecideReplace, ControlMessagesNameTheGonePodAndCountUp) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-2", 139);

  const Decision decision = world.Step();

  ControlMessage expected;
  expected.job_uid = "uid-1";
  expected.kind = ControlKind::kPeerGone;
  expected.rank = 2;
  expected.epoch = Epoch(1);
  expected.incarnation = Incarnation(0);
  expected.counter = 1;
  ASSERT_EQ(decision.effects.size(), 3U);
  EXPECT_EQ(std::get<SendControl>(decision.effects[1]).message, expected);
  expected.counter = 2;
  EXPECT_EQ(std::get<SendControl>(decision.effects[2]).message, expected);
  EXPECT_EQ(decision.status.control_counter, 2);
}

// A message that was sent before the successor was born is no news to it: whoever kept a copy of it
// cannot stop the successor with it.
TEST(DecideReplace, ASuccessorIsBornKnowingTheNewestControlMessage) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-2", 139);

  const Decision decision = world.Step();

  const auto& environment = std::get<CreatePod>(decision.effects[0]).pod.spec.container.env;
  EXPECT_EQ(environment.at("LOCKSTEP_CONTROL_COUNTER"), "2");
}

TEST(DecideReplace, LosingWorkerZeroIsOrdinary) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-0", 137);
  world.Step();
  world.RunAll();

  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
  EXPECT_EQ(world.Pods(), "mnist-worker-0-r1 mnist-worker-1");
}

TEST(DecideReplace, TwoLostAtOnceShareOneMeetingAndOneIncident) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-0", 137);
  world.Exit("mnist-worker-2", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.epoch, Epoch(1));
  EXPECT_EQ(DescribeRestarts(decision.status), "killed=2");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 1);
  world.RunAll();
  world.Step();
  EXPECT_EQ(world.Pods(), "mnist-worker-0-r1 mnist-worker-1 mnist-worker-2-r1");
}

TEST(DecideReplace, OperatorJoinsTheMeetingThatSurvivorsHaveCalled) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.ReportAll();
  world.Exit("mnist-worker-1", 137);
  world.observed.reports["mnist-worker-0"].document.epoch = Epoch(1);

  EXPECT_EQ(world.Step().status.epoch, Epoch(1));
}

TEST(DecideReplace, EpochOfReportsIsAdoptedWhileAllIsWell) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.ReportAll();
  world.observed.reports["mnist-worker-1"].document.epoch = Epoch(4);

  EXPECT_EQ(world.Step().status.epoch, Epoch(4));
}

TEST(DecideReplace, CrashAfterTheStatusWriteNeitherCountsNorReplacesTwice) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  // The status is stored, then the operator dies: no effect is carried out.
  world.job.status = Decide(world.job, world.observed, world.now).status;

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "killed=1");
  EXPECT_EQ(DescribeEffects(decision), "create pod mnist-worker-1-r1 on node node-a\n");
}

TEST(DecideReplace, PodThatHasEndedIsRemovedOnceItsSuccessorHasANode) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.Find("mnist-worker-1-r1")->spec.node_name.clear();
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.Find("mnist-worker-1-r1")->spec.node_name = "node-a";

  EXPECT_EQ(DescribeEffects(world.Step()), "delete pod mnist-worker-1 within 0 s: replaced\n");
}

TEST(DecideReplace, PodOfALostNodeIsReplacedElsewhere) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Find("mnist-worker-1")->spec.node_name = "node-gone";

  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "node_lost=1");
  ASSERT_NE(world.Find("mnist-worker-1-r1"), nullptr);
}

TEST(DecideReplace, PodThatSomebodyDeletesMayEndBeforeItIsReplaced) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Find("mnist-worker-1")->is_deleting = true;

  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.Exit("mnist-worker-1", 42);
  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "preempted=1");
  EXPECT_NE(world.Find("mnist-worker-1-r1"), nullptr);
}

TEST(DecideReplace, SuccessorOnOneAddressWaitsUntilItsPredecessorHasEnded) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.settings.addressing = LoopbackAddressing{"127.9.9"};
  world.Launch();
  world.ReportAll();
  world.Advance(seconds(2));
  world.ReportAll();
  world.observed.reports["mnist-worker-1"].age = seconds(2);
  world.observed.reports["mnist-worker-0"].document.peers = {
      {1, Incarnation(0), PeerState::kSilent, "no heartbeat", 2.0}};

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-1 within 0 s: replaced\n"
            "tell pod mnist-worker-0: peer_gone rank 1, epoch 1\n");
  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1-");
  world.FinishDeletions();
  world.Step();

  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1-r1");
  EXPECT_EQ(DescribeRestarts(world.job.status), "hang=1");
}

TEST(DecideReplace, SuccessorWaitsUntilItsPredecessorWasAskedToEnd) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.ReportAll();
  world.observed.reports["mnist-worker-1"].age = seconds(2);
  world.observed.reports["mnist-worker-0"].document.peers = {
      {1, Incarnation(0), PeerState::kSilent, "no heartbeat", 2.0}};

  world.Step();
  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1-");
  world.Step();

  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1- mnist-worker-1-r1");
}

TEST(DecideReplace, ReplacementThatDoesNotComeInTimeStartsTheGangAnew) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  Decision decision = world.Step();
  ASSERT_TRUE(decision.next_wakeup.has_value());
  world.Advance(seconds(60));

  decision = world.Step();

  EXPECT_EQ(TrueConditions(decision.status), "Created Restarting");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kRestarting),
            "pod mnist-worker-1-r1 (rank 1) did not start within 60 s, cause start_timeout; "
            "incident 1 of 6 allowed");
}

TEST(DecideReplace, PodThatIsOutOfMemoryNamesItsLimit) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].pod.limits.memory_bytes = int64_t{16} << 30;
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-1", 137, "OOMKilled");

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.last_failure->message,
            "pod mnist-worker-1 (rank 1) out of memory (exit code 137), memory limit 16Gi");
}

TEST(DecideReplace, PodThatIsOutOfMemoryNamesThePodsLimitWhereItsContainerHasNone) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].pod.pod_limits.memory_bytes = int64_t{16} << 30;
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-1", 137, "OOMKilled");

  EXPECT_EQ(world.Step().status.last_failure->message,
            "pod mnist-worker-1 (rank 1) out of memory (exit code 137), memory limit of the pod "
            "16Gi");
}

TEST(DecideReplace, BudgetThatIsUsedUpFailsTheJobWithItsLastCause) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.run_policy.backoff_limit = 2;
  TestWorld world(job);
  world.Launch();
  for (const char* pod : {"mnist-worker-1", "mnist-worker-1-r1"}) {
    world.Exit(pod, 137, "OOMKilled");
    world.Step();
    world.RunAll();
    world.Step();
  }
  world.Exit("mnist-worker-1-r2", 137, "OOMKilled");

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "oom=2");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kFailed),
            "pod mnist-worker-1-r2 (rank 1) out of memory (exit code 137), cause oom; "
            "runPolicy.backoffLimit allows 2 incidents, and 2 happened before");
  EXPECT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-r2");
}

TEST(DecideReplace, FailuresOnTwoNodesNeedBudgetForBoth) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.run_policy.backoff_limit = 1;
  job.spec.roles[0].gpus = 8;
  TestWorld world(job);
  world.AddNode("node-b");
  world.Launch();
  world.Exit("mnist-worker-0", 137);
  world.Exit("mnist-worker-1", 137);

  EXPECT_TRUE(IsTrue(world.Step().status, ConditionType::kFailed));
  EXPECT_EQ(DescribeRestarts(world.job.status), "");
}

TEST(DecideReplace, PermanentExitFailsTheJobWithTheProgramsLastWords) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 64);
  TerminationMessage words;
  words.outcome = Outcome::kPermanent;
  words.reason = "spec.training.dataset.images: no such file";
  world.Find("mnist-worker-1")->status.termination->message = EncodeTerminationMessage(words);

  EXPECT_EQ(
      MessageOf(world.Step().status, ConditionType::kFailed),
      "pod mnist-worker-1 (rank 1) failed by an error in the job's input (exit code 64): "
      "spec.training.dataset.images: no such file, cause user_error; earlier incidents: 0 of 6 "
      "allowed by runPolicy.backoffLimit");
}

TEST(DecideReplace, PermanentExitOfOneRankIsNotHiddenByTheDeathOfAnother) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Exit("mnist-worker-2", 64);

  EXPECT_TRUE(IsTrue(world.Step().status, ConditionType::kFailed));
}

TEST(DecideReplace, EvaluatorIsReplacedWithoutAMeeting) {
  TrainingJob job = MakeCommandJob(2);
  AddRole(Role::kEvaluator, 1, &job);
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-evaluator-0", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.epoch, Epoch(0));
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled Running");
  EXPECT_EQ(DescribeEffects(decision), "create pod mnist-evaluator-0-r1 on node node-a\n");
}

TEST(DecideReplace, RankLostAfterAPeerFinishedStartsTheGangAnew) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.success_policy = SuccessPolicy::kAllWorkers;
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  world.Step();
  world.Exit("mnist-worker-1", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(decision.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(decision.status), "killed=1");
}

TEST(DecideGangRestart, CommandGangStartsAnewOnceAllItsPodsHaveEnded) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  world.Exit("mnist-worker-1", 137);

  Decision decision = world.Step();
  EXPECT_EQ(
      DescribeEffects(decision),
      "delete pod mnist-worker-0 within 2 s: the attempt is over\ndelete pod mnist-worker-1 within "
      "2 s: the attempt is over\ndelete pod mnist-worker-2 within 2 s: the attempt is over\n");
  EXPECT_EQ(decision.status.attempt, Attempt(1));
  EXPECT_EQ(decision.status.epoch, Epoch(1));
  EXPECT_TRUE(decision.status.placement.empty());
  EXPECT_EQ(TrueConditions(decision.status), "Created Restarting");
  ASSERT_EQ(decision.events.size(), 1U);
  EXPECT_EQ(decision.events.front().type, EventType::kWarning);
  EXPECT_EQ(DescribeEffects(world.Step()), "");  // two pods still run
  world.FinishDeletions();
  world.Launch();

  EXPECT_EQ(world.Pods(), "mnist-worker-0-a1 mnist-worker-1-a1 mnist-worker-2-a1");
  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Running");
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1");
}

TEST(DecideReplace, ProgramsThatHaveMetMeetASuccessor) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  world.ReportMeeting();
  world.Exit("mnist-worker-1", 137);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision),
            "create pod mnist-worker-1-r1 on node node-a\n"
            "tell pod mnist-worker-0: peer_gone rank 1, epoch 1\n"
            "tell pod mnist-worker-2: peer_gone rank 1, epoch 1\n");
  EXPECT_EQ(decision.status.attempt, Attempt(0));
  EXPECT_EQ(DescribeRestarts(decision.status), "killed=1");
}

TEST(DecideGangRestart, ProgramsThatMeetAgainStartAnewWhenNobodyIsLeftToMeet) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.ReportMeeting();
  world.Exit("mnist-worker-0", 137);
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

// One that ends itself has its reasons: nobody stands in for it beside the others.
TEST(DecideGangRestart, OwnEndOfAProgramThatMeetsAgainIsNotReplaced) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  world.ReportMeeting();
  world.Exit("mnist-worker-0", 1);
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

TEST(DecideGangRestart, DeathFromOutsideExplainsThePeersOwnExit) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  world.Exit("mnist-worker-0", 1);  // lost its peer and gave up
  world.Exit("mnist-worker-1", 137);

  const Decision decision = world.Step();

  EXPECT_FALSE(IsTrue(decision.status, ConditionType::kFailed));
  EXPECT_EQ(DescribeRestarts(decision.status), "killed=1");
}

TEST(DecideGangRestart, ExitsOfTheOldGangDoNotCountAgain) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.Exit("mnist-worker-0", 143);

  world.Step();
  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1");
  EXPECT_EQ(world.job.status.attempt, Attempt(1));
}

TEST(DecideGangRestart, ProgramsOwnVerdictFailsTheJobUnderExitCode) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 3);
  world.Find("mnist-worker-1")->status.termination->message = "Traceback\nValueError: bad\n";
  world.Step();
  world.Advance(kEchoPatience);  // nobody explains it better

  EXPECT_EQ(
      MessageOf(world.Step().status, ConditionType::kFailed),
      "pod mnist-worker-1 (rank 1) ended with exit code 3: ValueError: bad, cause program_exit; "
      "earlier incidents: 0 of 6 allowed by runPolicy.backoffLimit");
}

TEST(DecideGangRestart, ImageWithoutTheLoaderOfTheRuntimeIsExplained) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 1);
  world.Find("mnist-worker-1")->status.termination->message =
      "exec /lockstep/bin/lockstep-runtime: no such file or directory\n";
  world.Step();
  world.Advance(kEchoPatience);

  EXPECT_EQ(
      MessageOf(world.Step().status, ConditionType::kFailed),
      "pod mnist-worker-1 (rank 1) ended with exit code 1: exec /lockstep/bin/lockstep-runtime: "
      "no such file or directory (the image needs glibc 2.34 or newer), cause program_exit; "
      "earlier incidents: 0 of 6 allowed by runPolicy.backoffLimit");
}

}  // namespace
}  // namespace lockstep::control
