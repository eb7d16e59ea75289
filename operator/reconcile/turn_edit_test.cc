#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/pod_manifest.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// What `kubectl edit` does: the manifest is another, and has a new generation.
void EditTraining(TestWorld* world) {
  world->job.spec.training->seed = 7;
  ++world->job.metadata.generation;
}

TEST(DecideEdit, GangThatRunsGoesOnAndTheJobSaysWhenTheChangeTakesEffect) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  EditTraining(&world);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(EventReasons(decision), "ManifestChanged");
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled Running");
  EXPECT_NE(MessageOf(decision.status, ConditionType::kScheduled).find("runPolicy.suspend"),
            std::string::npos);
  EXPECT_EQ(EventReasons(world.Step()), "");
}

TEST(DecideEdit, JobWhoseCheckpointsGoWithItsPodsSaysWhatTheChangeWillCost) {
  TestWorld world(MakeTrainingJob(2));
  world.observed.settings.job_directory = "/lockstep/work";
  world.observed.settings.runtime_image = "example/runtime:1";
  world.Launch();
  EditTraining(&world);
  world.Step();
  EXPECT_NE(MessageOf(world.job.status, ConditionType::kScheduled)
                .find("Training then begins at step 0: no volume is mounted at /lockstep/work"),
            std::string::npos)
      << MessageOf(world.job.status, ConditionType::kScheduled);
}

// Pods are told how long to wait for each other: a replacement must be told the same.
TEST(DecideEdit, OtherPatienceOrPriorityIsAnotherGang) {
  const auto attempt_after = [](auto edit) {
    TestWorld world(MakeTrainingJob(2));
    world.Launch();
    edit(&world.job.spec);
    ++world.job.metadata.generation;
    world.Exit("mnist-worker-1", 137);
    world.Step();
    world.FinishDeletions();
    world.Step();
    return world.job.status.attempt;
  };

  EXPECT_EQ(attempt_after([](TrainingJobSpec* spec) { ++spec->recovery.silent_after; }),
            Attempt(1));
  EXPECT_EQ(attempt_after([](TrainingJobSpec* spec) { ++spec->recovery.rendezvous_timeout; }),
            Attempt(1));
  EXPECT_EQ(attempt_after([](TrainingJobSpec* spec) { spec->roles[0].warm = {"torch"}; }),
            Attempt(1));
  EXPECT_EQ(attempt_after(
                [](TrainingJobSpec* spec) { spec->roles[0].gpu_visibility = GpuVisibility::kOne; }),
            Attempt(1));
  EXPECT_EQ(attempt_after([](TrainingJobSpec* spec) {
              spec->roles[0].launcher = ProcessLauncher::kTorchrun;
            }),
            Attempt(1));
  EXPECT_EQ(attempt_after([](TrainingJobSpec* spec) {
              spec->recovery.hung_after = std::chrono::seconds(60);
            }),
            Attempt(1));
  EXPECT_EQ(
      attempt_after([](TrainingJobSpec* spec) { spec->scheduling.priority_class_name = "urgent"; }),
      Attempt(1));
  EXPECT_EQ(
      attempt_after([](TrainingJobSpec* spec) { spec->scheduling.binding = PodBinding::kDirect; }),
      Attempt(1));
  EXPECT_EQ(attempt_after([](TrainingJobSpec* spec) { ++spec->recovery.replacement_timeout; }),
            Attempt(0));
}

TEST(DecideEdit, OtherBindingIsToldOfAndTakenBack) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.spec.scheduling.binding = PodBinding::kDirect;
  ++world.job.metadata.generation;
  EXPECT_EQ(EventReasons(world.Step()), "ManifestChanged");
  world.job.spec.scheduling.binding = PodBinding::kAffinity;
  ++world.job.metadata.generation;
  EXPECT_EQ(EventReasons(world.Step()), "GangPlaced");
}

// A replacement made from the new manifest would not understand its survivors.
TEST(DecideEdit, LossAfterAnEditStartsTheWholeGangFromTheNewManifestAndCountsNothing) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  EditTraining(&world);
  world.Step();
  const std::string before = world.job.status.origin.revision;

  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.FinishDeletions();
  world.Step();

  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(world.job.status), "");
  EXPECT_FALSE(HasEnded(world.job.status));
  world.FinishDeletions();
  world.Launch();
  EXPECT_NE(world.job.status.origin.revision, before);
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kRunning));
}

// Its share is paid for by the queue that it was placed by.
TEST(DecideEdit, GangStaysInItsQueueUntilItStartsAnew) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.scheduling.priority_class_name = "urgent";
  TestWorld world(job);
  world.Launch();
  EXPECT_EQ(world.job.status.origin.queue, "default");
  EXPECT_EQ(world.job.status.origin.priority_class, "urgent");

  world.job.spec.scheduling.queue = "vision";
  world.job.spec.scheduling.priority_class_name = "low";
  ++world.job.metadata.generation;
  EXPECT_EQ(EventReasons(world.Step()), "ManifestChanged");
  EXPECT_EQ(QueueOf(world.job.spec, world.job.status), "default");
  const std::string message = MessageOf(world.job.status, ConditionType::kScheduled);
  EXPECT_NE(message.find(
                "manifest of generation 1 and still counts in queue default instead of vision. "),
            std::string::npos)
      << message;
  EXPECT_EQ(PriorityClassOf(world.job.spec, world.job.status), "urgent");

  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.FinishDeletions();
  world.Launch();
  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(world.job.status.origin.queue, "vision");
  EXPECT_EQ(world.job.status.origin.priority_class, "low");
}

TEST(DecideEdit, OtherQueueAloneIsAnotherGang) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.spec.scheduling.queue = "vision";
  ++world.job.metadata.generation;

  EXPECT_EQ(EventReasons(world.Step()), "ManifestChanged");
  world.job.spec.scheduling.queue = "default";
  ++world.job.metadata.generation;
  EXPECT_EQ(EventReasons(world.Step()), "GangPlaced") << "the same by another name";
}

TEST(DecideEdit, GangFromBeforeItsQueueWasKeptIsTakenForOneOfTodays) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.status.origin.queue.clear();
  world.job.spec.scheduling.queue = "vision";
  ++world.job.metadata.generation;

  EXPECT_EQ(EventReasons(world.Step()), "");
  EXPECT_EQ(world.job.status.origin.queue, "vision");
}

TEST(DecideEdit, EditThatWouldMakeEqualPodsIsNone) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.job.spec.run_policy.backoff_limit = 9;
  ++world.job.metadata.generation;

  EXPECT_EQ(EventReasons(world.Step()), "");
  world.Exit("mnist-worker-1", 137);
  world.Step();

  EXPECT_EQ(world.job.status.attempt, Attempt(0));  // replaced, not started anew
}

TEST(DecideEdit, GangThatNeverRanTakesTheChangeAtOnce) {
  TestWorld world(MakeTrainingJob(2));
  world.Step();
  EditTraining(&world);

  world.Step();

  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(world.job.status.rollbacks, 0);
}

TEST(DecideEdit, ReplacementHasTheRuntimeOfItsGangThoughTheOperatorHasANewerOne) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].pod.image.clear();
  TestWorld world(job);
  world.observed.settings = SettingsForImages({"runtime:1", "", "", ""});
  world.Launch();
  EXPECT_EQ(world.job.status.origin.runtime_image, "runtime:1");

  world.observed.settings.runtime_image = "runtime:2";
  world.Exit("mnist-worker-1", 137);
  world.Step();

  const kube::Pod* const successor = world.Find("mnist-worker-1-r1");
  ASSERT_NE(successor, nullptr);
  const Json manifest = PodManifest(world.job, *successor, world.observed.settings);
  EXPECT_EQ(manifest["spec"]["containers"][0]["image"].get<std::string>(), "runtime:1");
}

// `kubectl scale` beyond the cluster: two pods of 4 GPUs fill its one node.
TestWorld ScaledBeyondTheCluster() {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].gpus = 4;
  TestWorld world(job);
  world.Launch();
  world.job.spec.roles[0].replicas = 3;
  ++world.job.metadata.generation;
  return world;
}

TEST(DecideEdit, GangOfOnePodANodeIsNotEndedForMorePodsThanNodes) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].pod.pod_terms = {{"", /*is_anti=*/true, {}, "kubernetes.io/hostname"}};
  TestWorld world(job);
  world.Launch();
  world.job.spec.roles[0].replicas = 3;
  ++world.job.metadata.generation;

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "");
  const std::string message = MessageOf(decision.status, ConditionType::kResized);
  EXPECT_NE(
      message.find("needs 3 domains of kubernetes.io/hostname, one for each pod, but there are " +
                   std::to_string(world.nodes().size())),
      std::string::npos)
      << message;
}

TEST(DecideEdit, SizeThatNoClusterOfTodayHoldsDoesNotEndTheGangThatRuns) {
  TestWorld world = ScaledBeyondTheCluster();

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "");
  EXPECT_EQ(EventReasons(decision), "WouldNotFit");
  EXPECT_EQ(TrueConditions(decision.status), "Created Scheduled Running");
  const std::string message = MessageOf(decision.status, ConditionType::kResized);
  EXPECT_NE(message.find("needs 12 GPUs, 8 free on 1 node. The gang of 2 workers continues"),
            std::string::npos)
      << message;
  EXPECT_EQ(decision.next_wakeup, world.now + std::chrono::seconds(30));
  EXPECT_EQ(EventReasons(world.Step()), "") << "it is said once";
}

TEST(DecideEdit, SizeThatDidNotFitIsTakenWhenANodeHasCome) {
  TestWorld world = ScaledBeyondTheCluster();
  world.Step();
  world.AddNode("node-b");

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kResized));
}

TEST(DecideEdit, GangEndsForASizeThatDoesNotFitWhereSomebodyAcceptsThat) {
  TestWorld world = ScaledBeyondTheCluster();
  world.Step();
  world.job.metadata.annotations["lockstep.dev/accept-progress-loss"] = "2";

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

TEST(DecideEdit, RoomThatOtherJobsHoldIsWaitedForAsEver) {
  TestWorld world = ScaledBeyondTheCluster();
  world.AddNode("node-b");
  NodeUsage all;
  all.resources = {64'000, 0, 8};
  world.observed.used_elsewhere.by_jobs.Edit()["node-b"] = all;

  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

TEST(DecideEdit, PriorityIsKeptWhenItsClassIsDeletedAndThatIsTold) {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.scheduling.priority_class_name = "urgent";
  TestWorld world(job);
  world.observed.priority = GrantedPriority{1000, true};
  world.Launch();
  ASSERT_EQ(world.job.status.origin.priority, (GrantedPriority{1000, true}));

  world.observed.priority.reset();
  world.observed.missing_class = "priority class urgent does not exist";
  const Decision told = world.Step();
  EXPECT_EQ(EventReasons(told), "FieldsNotPlanned");
  EXPECT_EQ(MessageOf(told.status, ConditionType::kFullyPlanned),
            "priority class urgent does not exist any more: the gang keeps priority 1000, and the "
            "next gang waits until the class exists");
  EXPECT_EQ(told.status.origin.priority, (GrantedPriority{1000, true}));

  world.observed.priority = GrantedPriority{5, true};
  world.observed.missing_class.clear();
  EXPECT_EQ(EventReasons(world.Step()), "") << "no field has changed";
  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kFullyPlanned));
  EXPECT_EQ(world.job.status.origin.priority, (GrantedPriority{1000, true}));
}

TEST(DecideEdit, FieldsAreSaidToBeHeededAgainOnlyWhenTheManifestHasChanged) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.scheduling.priority_class_name = "urgent";
  TestWorld world(job);
  world.AddNode("node-a");
  world.observed.priority = GrantedPriority{1000, true};
  world.Launch();
  world.observed.priority.reset();
  world.observed.missing_class = "priority class urgent does not exist";
  world.Step();
  world.observed.round =
      Unschedulable{Constraint::kPriorityClass, "priority class urgent does not exist"};
  world.Vanish("mnist-worker-1");
  std::string told;
  for (int turn = 0; turn < 5; ++turn) {
    told += EventReasons(world.Step()) + " ";
    world.now += std::chrono::seconds(10);
  }
  EXPECT_TRUE(world.job.status.placement.empty()) << "or the gang has its places still";
  EXPECT_EQ(told.find("FieldsPlanned"), std::string::npos) << told;

  SetCondition(&world.job.status,
               {ConditionType::kFullyPlanned, false, "FieldsNotPlanned", "a claim"},
               world.now);
  ++world.job.metadata.generation;
  EXPECT_NE(EventReasons(world.Step()).find("FieldsPlanned"), std::string::npos);
}

// Nobody wrote down what it was placed with.
TEST(DecideEdit, GangOfAnEarlierVersionTakesThePriorityThatItsClassHasNow) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  ASSERT_FALSE(world.job.status.origin.priority.has_value());
  world.observed.priority = GrantedPriority{7, false};
  world.Step();
  EXPECT_EQ(world.job.status.origin.priority, (GrantedPriority{7, false}));
}

}  // namespace
}  // namespace lockstep::control
