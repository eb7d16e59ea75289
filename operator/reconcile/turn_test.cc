#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST(DecideStart, WholeGangIsPlacedWrittenAndCreatedInOneDecision) {
  TestWorld world(MakeTrainingJob(3));

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision),
            "create pod mnist-worker-0 on node node-a\n"
            "create pod mnist-worker-1 on node node-a\n"
            "create pod mnist-worker-2 on node node-a\n");
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled");
  EXPECT_EQ(decision.status.placement.size(), 3U);
  EXPECT_EQ(EventReasons(decision), "JobCreated GangPlaced");
}

TEST(DecideStart, NothingIsSaidOrDoneTwice) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(EventReasons(decision), "");
  EXPECT_EQ(decision.status, world.job.status);
}

TEST(DecideStart, RunsWhenAllPodsRun) {
  TestWorld world(MakeTrainingJob(2));
  world.Step();
  world.Find("mnist-worker-0")->status.phase = kube::PodPhase::kRunning;
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled");
  EXPECT_EQ(world.job.status.roles[0].pending, 1);
  EXPECT_EQ(world.job.status.roles[0].active, 1);

  world.RunAll();

  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
  EXPECT_EQ(world.job.status.roles[0].active, 2);
}

TEST(DecideStart, GangThatDoesNotFitThisMachineFailsWithTheShortfallAndCreatesNothing) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.nodes()[0].allocatable.gpu_count = 0;
  world.observed.is_one_machine = true;

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(TrueConditions(decision.status), "Created Failed");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kFailed), "needs 3 GPUs, this machine has 0");
}

TEST(DecideStart, GangWaitsForRoomOnAClusterUntilItsTimeIsOver) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 4;
  job.spec.scheduling.timeout = seconds(60);
  TestWorld world(job);

  Decision decision = world.Step();
  EXPECT_EQ(TrueConditions(decision.status), "Created");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kScheduled),
            "needs 12 GPUs, 8 free on 1 node");
  EXPECT_EQ(decision.next_wakeup, world.now + seconds(60));
  world.Advance(seconds(60));
  decision = world.Step();

  EXPECT_EQ(
      MessageOf(decision.status, ConditionType::kFailed),
      "the gang was not placed within scheduling.timeoutSeconds: needs 12 GPUs, 8 free on 1 node");
}

TEST(DecideStart, WaitingGangStartsWhenANodeAppears) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 4;
  TestWorld world(job);
  world.Step();
  kube::Node second = world.nodes()[0];
  second.name = "node-b";
  world.nodes().push_back(second);

  world.Step();

  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1 mnist-worker-2");
}

TEST(DecideStart, RoomThatOthersUseIsNotGivenAway) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].gpus = 4;
  TestWorld world(job);
  world.observed.used_elsewhere.by_jobs.Edit()["node-a"].resources.gpu_count = 1;

  EXPECT_EQ(MessageOf(world.Step().status, ConditionType::kScheduled),
            "needs 8 GPUs, 7 free on 1 node");
}

TEST(DecideStart, DevicesOfAnyMakerAreWaitedFor) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].pod.requests.Set("amd.com/gpu", 1);
  TestWorld world(job);

  EXPECT_EQ(MessageOf(world.Step().status, ConditionType::kScheduled),
            "worker needs 1 amd.com/gpu, the largest node offers 0");
  world.nodes()[0].allocatable.Set("amd.com/gpu", 2);

  EXPECT_EQ(DescribeEffects(world.Step()).find("create pod mnist-worker-0 on node node-a"), 0U);
}

TEST(DecideStart, CreateThatWasLostIsRepeated) {
  TestWorld world(MakeTrainingJob(2));
  world.Step();
  world.Vanish("mnist-worker-1");  // never seen by a turn: as if it had never been created

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "create pod mnist-worker-1 on node node-a\n");
  EXPECT_EQ(DescribeRestarts(decision.status), "");
  EXPECT_LE(*decision.next_wakeup, world.now + seconds(1));
}

TEST(DecideStart, JobOfAnotherControllerIsLeftAlone) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.run_policy.managed_by = "kueue.x-k8s.io/multikueue";
  TestWorld world(job);

  EXPECT_EQ(world.Step(), Decision{});
  world.job.spec.run_policy.managed_by = "lockstep.dev/operator";
  EXPECT_NE(world.Step(), Decision{});
}

TEST(DecideStart, TopologyThatCannotBeFailsTheJob) {
  TrainingJob job = MakeTrainingJob(2);
  AddRole(Role::kChief, 2, &job);
  TestWorld world(job);

  const Decision decision = world.Step();

  EXPECT_EQ(TrueConditions(decision.status), "Created Failed");
  EXPECT_NE(MessageOf(decision.status, ConditionType::kFailed).find("chief"), std::string::npos);
}

TEST(DecideStart, GangThatDoesNotComeUpInTimeIsRolledBackWhole) {
  TestWorld world(MakeTrainingJob(2));
  world.Step();
  world.Find("mnist-worker-0")->status.phase = kube::PodPhase::kRunning;
  world.Step();
  world.Advance(world.job.spec.scheduling.start_timeout);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "");
  EXPECT_EQ(decision.status.rollbacks, 1);
  EXPECT_EQ(decision.status.attempt, Attempt(1));
  EXPECT_EQ(world.Pods(), "mnist-worker-0-");
}

TEST(DecideService, IsPreparedBeforeTheFirstPodsAndWheneverItIsGone) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.service = ServiceState::kMissing;
  EXPECT_EQ(DescribeEffects(world.Step()),
            "prepare service and key\n"
            "create pod mnist-worker-0 on node node-a\n"
            "create pod mnist-worker-1 on node node-a\n");
  world.observed.service = ServiceState::kReady;
  world.RunAll();
  EXPECT_EQ(DescribeEffects(world.Step()), "");

  world.observed.service = ServiceState::kMissing;
  EXPECT_EQ(DescribeEffects(world.Step()), "prepare service and key\n");
}

TEST(DecideService, ReplacementOfARunningGangDoesNotWaitForIt) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.service = ServiceState::kReady;
  world.Launch();
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(DescribeEffects(world.Step()).find("prepare"), std::string::npos);
}

TEST(DecideService, EachAttemptPreparesItAnew) {
  TestWorld world(MakeCommandJob(2));
  world.observed.service = ServiceState::kReady;
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.FinishDeletions();

  EXPECT_EQ(DescribeEffects(world.Step()),
            "prepare service and key\n"
            "create pod mnist-worker-0-a1 on node node-a\n"
            "create pod mnist-worker-1-a1 on node node-a\n");
}

TEST(DecideService, IsNeitherPreparedForAWaitingJobNorForOneThatHasEnded) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].gpus = 8;
  TestWorld world(job);
  world.observed.service = ServiceState::kMissing;
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.job.spec.roles[0].gpus = 1;
  world.Launch();
  world.Exit("mnist-worker-0", 0);
  world.Step();
  world.FinishDeletions();
  world.Step();

  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Succeeded");
  EXPECT_EQ(DescribeEffects(world.Step()), "");
}

TEST(DecideService, NameTakenBySomebodyHoldsTheJobBackAndSaysSoOnce) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.service = ServiceState::kForeign;

  Decision decision = world.Step();
  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(EventReasons(decision), "JobCreated ServiceNameTaken");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kScheduled),
            "the service mnist, which the pods need to find each other, does not belong to this "
            "job; next try after 5 s");
  EXPECT_EQ(decision.next_wakeup, world.now + seconds(5));
  world.Advance(seconds(5));
  decision = world.Step();
  EXPECT_EQ(EventReasons(decision), "");
  EXPECT_EQ(decision.next_wakeup, world.now + seconds(10));
  world.observed.service = ServiceState::kMissing;
  EXPECT_EQ(DescribeEffects(world.Step()), "");  // not before its time
  world.Advance(seconds(10));
  world.Launch();

  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1");
  EXPECT_EQ(world.job.status.rollbacks, 0);
}

TEST(DecideService, RunningGangOutlivesTheLossOfItsName) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.observed.service = ServiceState::kForeign;
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.Exit("mnist-worker-1", 137);
  world.Step();

  EXPECT_EQ(world.Pods(), "mnist-worker-0");  // no successor that nobody could find
  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Restarting");
}

TEST(DecideIdentity, PodsOfOthersAndOfAnEarlierJobOfTheNameAreIgnored) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  kube::Pod other = *world.Find("mnist-worker-1");
  other.name = "mnist-worker-1-r7";
  other.owner_uid = "uid-0";
  other.labels["lockstep.dev/job-uid"] = "uid-0";
  world.observed.pods.push_back(other);
  kube::Pod foreign;
  foreign.name = "postgres-0";
  world.observed.pods.push_back(foreign);

  EXPECT_EQ(DescribeEffects(world.Step()), "");
}

TEST(DecideIdentity, ChangedRolesGiveUpTheGang) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.spec.roles[0].replicas = 3;

  world.Step();
  EXPECT_EQ(TrueConditions(world.job.status), "Created");
  world.FinishDeletions();
  world.Launch();

  EXPECT_EQ(world.Pods(), "mnist-worker-0-a1 mnist-worker-1-a1 mnist-worker-2-a1");
  EXPECT_EQ(DescribeRestarts(world.job.status), "");
}

TEST(DecideProgress, LowestRankThatReportsIsBelieved) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.ReportAll();
  StatusDocument& document = world.observed.reports["mnist-worker-0"].document;
  document.step = Step(40);
  document.steps_total = 140;
  document.samples_per_second = 320;
  document.loss = 0.25;

  const JobProgress progress = world.Step().status.progress.value();

  EXPECT_EQ(progress.step, 40);
  EXPECT_DOUBLE_EQ(progress.loss, 0.25);
  EXPECT_DOUBLE_EQ(progress.eta_seconds, 10);  // 100 steps of 32 samples
}

TEST(DecideProgress, TimeLeftOfAProgramIsWhatItsPodSays) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.ReportAll();
  StatusDocument& document = world.observed.reports["mnist-worker-0"].document;
  document.step = Step(40);
  document.steps_total = 140;
  document.eta_seconds = 75;

  EXPECT_DOUBLE_EQ(world.Step().status.progress->eta_seconds, 75);
}

TEST(DecideProgress, TimeIsThatOfTheFirstReportThatSaidSo) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  world.ReportAll();
  world.Advance(seconds(2));
  const WallTime first = world.now - seconds(2);
  EXPECT_EQ(world.Step().status.progress->observed_at, first);
  world.ReportAll();
  EXPECT_EQ(world.Step().status.progress->observed_at, first);  // nothing new
  world.observed.reports["mnist-worker-0"].document.step = Step(1);

  EXPECT_EQ(world.Step().status.progress->observed_at, world.now);
}

TEST(DecidePure, EqualInputGivesAnEqualAnswer) {
  TestWorld world(MakeTrainingJob(3));
  world.Launch();
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(Decide(world.job, world.observed, world.now),
            Decide(world.job, world.observed, world.now));
}

}  // namespace
}  // namespace lockstep::control
