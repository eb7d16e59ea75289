#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/lifecycle/clean_pod_policy.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST(DecideEnd, ChiefOrWorkerZeroDecidesAndTheOthersMayFinish) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-0", 0);

  Decision decision = world.Step();
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled Succeeded");
  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(decision.next_wakeup, world.now + kFinishGrace);
  world.Exit("mnist-worker-1", 0);
  world.Advance(kFinishGrace);
  decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision),
            "delete pod mnist-worker-2 within 30 s: the job has ended\n");
}

TEST(DecideEnd, AllWorkersWaitsForEveryRankAndNotForTheEvaluator) {
  TrainingJob job = MakeTrainingJob(2);
  AddRole(Role::kEvaluator, 1, &job);
  job.spec.success_policy = SuccessPolicy::kAllWorkers;
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  EXPECT_FALSE(HasEnded(world.Step().status));
  world.Exit("mnist-worker-1", 0);

  EXPECT_TRUE(IsTrue(world.Step().status, ConditionType::kSucceeded));
}

// Its last checkpoint was written a moment before the success.
TEST(DecideEnd, EvaluatorHasItsGraceToJudgeTheLastCheckpoint) {
  TrainingJob job = MakeTrainingJob(1);
  AddRole(Role::kEvaluator, 1, &job);
  for (const seconds grace : {seconds(300), seconds(0)}) {
    job.spec.run_policy.evaluator_grace = grace;
    TestWorld world(job);
    world.Launch();
    world.Exit("mnist-worker-0", 0);
    if (grace > seconds(0)) {
      const Decision decision = world.Step();
      EXPECT_TRUE(IsTrue(decision.status, ConditionType::kSucceeded));
      EXPECT_EQ(DescribeEffects(decision), "");
      EXPECT_EQ(decision.next_wakeup, world.now + grace);
      world.Advance(grace);
    }
    EXPECT_EQ(DescribeEffects(world.Step()),
              "delete pod mnist-evaluator-0 within 30 s: the job has ended\n");
  }
}

TEST(DecideEnd, FinishedRankThatIsCollectedIsNotStartedAgain) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.success_policy = SuccessPolicy::kAllWorkers;
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-1", 0);
  world.Step();
  world.Vanish("mnist-worker-1");

  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.Exit("mnist-worker-0", 0);

  EXPECT_TRUE(IsTrue(world.Step().status, ConditionType::kSucceeded));
}

TEST(DecideEnd, SuccessAndFailureInOneTurnIsSuccessAndStaysSo) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  world.Exit("mnist-worker-1", 1);
  world.Step();

  world.Step();

  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Succeeded");
  EXPECT_EQ(
      MessageOf(world.job.status, ConditionType::kSucceeded),
      "worker-0 has finished; worker-1 had failed, which successPolicy ChiefOrWorker0 accepts");
}

TEST(DecideEnd, WhatTheFirstRankSaysTrainingCameToIsInTheStatus) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.ReportAll();
  StatusDocument& document = world.observed.reports["mnist-worker-0"].document;
  document.step = Step(749);
  document.steps_skipped = 2;
  EXPECT_EQ(world.Step().status.progress->steps_skipped, 2);
  world.Exit("mnist-worker-0", 0);
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  words.last_step = Step(752);
  words.steps_skipped = 3;
  words.result = TestResult{0.11, 0.967};
  world.Find("mnist-worker-0")->status.termination->message = EncodeTerminationMessage(words);

  const TrainingJobStatus status = world.Step().status;

  EXPECT_EQ(status.result, words.result);
  EXPECT_EQ(MessageOf(status, ConditionType::kSucceeded),
            "worker-0 has finished: test accuracy 96.7 %");
  EXPECT_EQ(status.progress->step, 752);
  EXPECT_EQ(status.progress->steps_skipped, 3);
}

// Worker 0 was replaced, and came when the others had met and left.
TEST(DecideEnd, WhatSeveralModelsCameToIsNotSaidByOneThatKnowsItsOwnAlone) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.strategy = Strategy::kIndependent;
  world.Launch();
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  words.last_step = Step(752);
  words.result = TestResult{0.5, 0.8};
  world.Exit("mnist-worker-0", 0);
  world.Find("mnist-worker-0")->status.termination->message = EncodeTerminationMessage(words);
  EXPECT_EQ(world.Step().status.result, std::nullopt);

  words.result = TestResult{0.25, 0.9, {{0.1, 0.5, 0.8}, {0.1, 0, 1}}};
  world.Exit("mnist-worker-1", 0);
  world.Find("mnist-worker-1")->status.termination->message = EncodeTerminationMessage(words);
  EXPECT_EQ(world.Step().status.result, words.result);
}

TEST(DecideEnd, WhatAProgramReportsJustBeforeItsEndIsInTheStatusThoughNobodyAskedBefore) {
  TestWorld world(MakeCommandJob(1));
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  words.last_step = Step(40);
  words.steps_total = 40;
  words.data_epoch = 3;
  words.training_loss = 0.25;
  world.Find("mnist-worker-0")->status.termination->message = EncodeTerminationMessage(words);

  const TrainingJobStatus status = world.Step().status;

  ASSERT_TRUE(status.progress.has_value());
  EXPECT_EQ(status.progress->step, 40);
  EXPECT_EQ(status.progress->steps_total, 40);
  EXPECT_EQ(status.progress->data_epoch, 3);
  EXPECT_EQ(status.progress->loss, 0.25);
  EXPECT_EQ(status.result, std::nullopt);

  world.ReportAll();
  world.observed.reports["mnist-worker-0"].document.step = Step(38);
  world.Advance(seconds(10));
  EXPECT_EQ(world.Step().status, status) << "an older report takes it back";
}

TEST(DecideEnd, CleanPodPolicySaysWhatStays) {
  struct Case {
    CleanPodPolicy policy;
    std::string pods;
  };

  for (const Case& one : {Case{CleanPodPolicy::kAll, "mnist-worker-0-"},
                          Case{CleanPodPolicy::kRunning, "mnist-worker-0- mnist-worker-1"},
                          Case{CleanPodPolicy::kNone, "mnist-worker-0 mnist-worker-1"}}) {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.run_policy.clean_pod_policy = one.policy;
    TestWorld world(job);
    world.Launch();
    world.Exit("mnist-worker-1", 64);
    world.Step();
    EXPECT_EQ(world.Pods(), one.pods) << CleanPodPolicyName(one.policy);
  }
}

TEST(DecideEnd, ActiveDeadlineFailsTheJobByItself) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.run_policy.active_deadline = seconds(100);
  TestWorld world(job);
  world.Launch();
  EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(100));
  world.Advance(seconds(100));

  const Decision decision = world.Step();

  EXPECT_EQ(FindCondition(decision.status, ConditionType::kFailed)->reason, "DeadlineExceeded");
  EXPECT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-");
}

// The job had failed, and its pods kept their GPUs.
TEST(DecideEnd, LimitsOfTimeEndWhatRunsWhateverCleanPodPolicySays) {
  for (const bool is_queues : {false, true}) {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.run_policy.clean_pod_policy = CleanPodPolicy::kNone;
    TestWorld world(job);
    if (is_queues) {
      world.observed.run_time_limit = RunTimeLimit{"vision", seconds(100)};
    } else {
      world.job.spec.run_policy.active_deadline = seconds(100);
    }
    world.Launch();
    world.Advance(seconds(100));

    EXPECT_TRUE(HasEndedByLimit(world.Step().status));
    EXPECT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-");
  }
}

TEST(DecideEnd, TheShorterOfTheJobsAndItsQueuesLimitFailsItAndIsNamed) {
  struct Case {
    int64_t own;       // 0: none
    int64_t of_queue;  // 0: none
    int64_t ends_after;
    std::string words;
  };

  const std::string by_own = "the job ran longer than runPolicy.activeDeadlineSeconds, ";
  const std::string by_queue = " s that queue vision allows (maxRuntimeSeconds)";
  for (const Case& one : {Case{0, 50, 50, "the job ran for the 50" + by_queue},
                          Case{80, 50, 50, "the job ran for the 50" + by_queue},
                          Case{50, 80, 50, by_own + "50 s"},
                          Case{50, 50, 50, by_own + "50 s"}}) {
    TrainingJob job = MakeTrainingJob(2);
    if (one.own > 0) {
      job.spec.run_policy.active_deadline = seconds(one.own);
    }
    TestWorld world(job);
    world.observed.run_time_limit = RunTimeLimit{"vision", seconds(one.of_queue)};
    world.Launch();
    EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(one.ends_after)) << one.words;
    world.Advance(seconds(one.ends_after) - std::chrono::milliseconds(1));
    EXPECT_FALSE(HasEnded(world.Step().status)) << one.words;
    world.Advance(std::chrono::milliseconds(1));

    const Decision decision = world.Step();

    EXPECT_EQ(FindCondition(decision.status, ConditionType::kFailed)->reason, "DeadlineExceeded");
    EXPECT_EQ(MessageOf(decision.status, ConditionType::kFailed), one.words);
    EXPECT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-") << one.words;
  }
}

// Time in which no gang has places because others went first is the queue's, not the job's.
TEST(DecideEnd, QueuesLimitCountsAsTheJobsOwnDoes) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.run_time_limit = RunTimeLimit{"vision", seconds(600)};
  world.observed.round = Unschedulable{Constraint::kQuota, "queue vision is full"};
  world.Step();
  world.Advance(seconds(601));
  world.Step();
  EXPECT_FALSE(HasEnded(world.job.status)) << "it had no places";

  world.observed.round.reset();
  world.Launch();
  world.Advance(seconds(599));
  world.Step();
  EXPECT_FALSE(HasEnded(world.job.status));
  world.Advance(seconds(1));
  world.Step();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kFailed));
}

void SuspendAndResume(TestWorld* world) {
  world->job.spec.run_policy.suspend = true;
  world->Step();
  world->FinishDeletions();
  world->job.spec.run_policy.suspend = false;
}

TEST(DecideEnd, SuspensionGivesNothingBackOfTheQueuesLimit) {
  TestWorld world(MakeTrainingJob(1));
  world.observed.run_time_limit = RunTimeLimit{"vision", seconds(600)};
  world.Launch();
  world.Advance(seconds(400));
  SuspendAndResume(&world);
  EXPECT_EQ(world.job.status.ran_before, seconds(400));
  world.Launch();
  world.Advance(seconds(199));
  world.Step();
  EXPECT_FALSE(HasEnded(world.job.status));
  world.Advance(seconds(1));
  world.Step();
  EXPECT_EQ(MessageOf(world.job.status, ConditionType::kFailed),
            "the job ran for the 600 s that queue vision allows (maxRuntimeSeconds)");
}

TEST(DecideEnd, NothingIsPlacedOnceTheQueuesLimitIsUsedUp) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  world.Advance(seconds(400));
  SuspendAndResume(&world);
  world.observed.run_time_limit = RunTimeLimit{"vision", seconds(300)};
  world.Step();
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kFailed));
  EXPECT_EQ(world.Pods(), "");
}

TEST(DecideEnd, LimitThatIsLoweredEndsWhatIsOverIt) {
  TestWorld world(MakeTrainingJob(1));
  world.observed.run_time_limit = RunTimeLimit{"vision", seconds(600)};
  world.Launch();
  world.Advance(seconds(100));
  world.Step();
  ASSERT_FALSE(HasEnded(world.job.status));

  world.observed.run_time_limit->limit = seconds(60);
  world.Step();
  EXPECT_EQ(MessageOf(world.job.status, ConditionType::kFailed),
            "the job ran for the 60 s that queue vision allows (maxRuntimeSeconds)");
}

TEST(DecideEnd, JobIsRemovedAfterItsTimeToLive) {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.run_policy.ttl_after_finished = seconds(60);
  TestWorld world(job);
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(60));
  world.Advance(seconds(60));

  EXPECT_EQ(DescribeEffects(world.Step()), "delete the job\n");
}

TEST(DecideSuspend, SuspendedJobHasNoPodsAndResumesAsANewAttempt) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  const WallTime first_start = *world.job.status.start_time;
  world.job.spec.run_policy.suspend = true;
  world.Advance(seconds(10));

  world.Step();
  EXPECT_EQ(TrueConditions(world.job.status), "Created Suspended");
  EXPECT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-");
  world.Exit("mnist-worker-0", 42);
  world.Step();
  world.FinishDeletions();
  world.Step();
  EXPECT_EQ(world.Pods(), "");
  EXPECT_EQ(DescribeRestarts(world.job.status), "");
  world.job.spec.run_policy.suspend = false;
  world.Launch();

  EXPECT_EQ(world.Pods(), "mnist-worker-0-a1 mnist-worker-1-a1");
  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Running");
  EXPECT_GT(*world.job.status.start_time, first_start);
}

TEST(DecideSuspend, ResumedJobWhosePodsAreStillThereIsNotCalledSuspended) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.spec.run_policy.suspend = true;
  world.Step();
  world.job.spec.run_policy.suspend = false;
  world.Step();
  ASSERT_EQ(world.Pods(), "mnist-worker-0- mnist-worker-1-");
  EXPECT_EQ(DeriveStatus(world.job).reason.find("suspend"), std::string::npos)
      << DeriveStatus(world.job).reason;
}

TEST(DecideSuspend, JobBornSuspendedStartsNothing) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.run_policy.suspend = true;
  TestWorld world(job);

  EXPECT_EQ(DescribeEffects(world.Step()), "");
  EXPECT_EQ(TrueConditions(world.job.status), "Created Suspended");
}

// kubectl get tj shows how large the job was that failed, not what it was edited to afterwards.
TEST(DecideEnd, JobThatFailedWithoutAGangIsCountedAsItWasThen) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.scheduling.timeout = seconds(10);
  TestWorld world(job);
  world.observed.round = Unschedulable{Constraint::kGpu, "needs 2 GPUs, 0 free"};
  world.Step();
  world.Advance(seconds(10));
  world.Step();
  ASSERT_TRUE(HasEnded(world.job.status));

  world.job.spec.roles[0].replicas = 5;
  ++world.job.metadata.generation;
  world.Step();

  EXPECT_EQ(DeriveStatus(world.job).ready, "0/2");
}

}  // namespace
}  // namespace lockstep::control
