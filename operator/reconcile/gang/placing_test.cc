#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/admission_change.h"
#include "operator/reconcile/testing/fake_world.h"

// How a gang comes to its places over time: what is remembered of tries that failed, how long a job
// waits and runs, and what is made of pods on their way into the cluster.

namespace lockstep::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const std::string& NodeOfFirst(const TestWorld& world) {
  return world.job.status.placement.at(0).node;
}

// Every pod of the gang is refused by its node, the gang goes, and its pause passes.
void RefuseGang(TestWorld* world) {
  for (kube::Pod& pod : world->observed.pods) {
    pod.status.phase = kube::PodPhase::kFailed;
    pod.status.reason = "UnexpectedAdmissionError";
  }
  world->Step();
  world->FinishDeletions();
  world->Advance(*world->job.status.retry_at - world->now);
}

TEST(Placing, NodeThatRefusesComesLastUntilItHasProvedItself) {
  TestWorld world(MakeTrainingJob(2));
  world.AddNode("node-b");
  world.Step();
  const std::string first = NodeOfFirst(world);
  RefuseGang(&world);

  world.Launch();
  EXPECT_NE(NodeOfFirst(world), first);
  EXPECT_EQ(world.job.status.suspect_nodes.size(), 1U) << "the other one has proved itself only";

  world.nodes() = {*FindNode(world.observed, first)};
  world.job.spec.run_policy.suspend = true;
  world.Step();
  world.FinishDeletions();
  world.job.spec.run_policy.suspend = false;
  world.Launch();
  EXPECT_EQ(NodeOfFirst(world), first) << "better than none";
  EXPECT_TRUE(world.job.status.suspect_nodes.empty());
}

// A pod of the deleted job mnist stays, because a finalizer holds it. No pod is made before all
// names are free.
TEST(Placing, GangWaitsAsAWholeForThePodsOfAnEarlierJobOfTheName) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  kube::Pod left = world.observed.pods.back();
  const std::string name = left.name;
  TestWorld next(MakeTrainingJob(2));
  left.owner_uid = "uid-0";
  left.labels[label::kJobUid] = "uid-0";
  left.finalizers = {"example.com/hold", "example.com/more"};
  left.is_deleting = true;
  next.observed.pods = {left};

  next.Step();
  EXPECT_TRUE(next.job.status.placement.empty());
  EXPECT_EQ(next.observed.pods.size(), 1U);
  EXPECT_EQ(MessageOf(next.job.status, ConditionType::kScheduled),
            "waits for pod " + name +
                " of an earlier job of this name (kept by its finalizers example.com/hold, "
                "example.com/more). The job continues when the pod is deleted");

  next.observed.pods.clear();
  next.Step();
  EXPECT_EQ(next.observed.pods.size(), 2U);
}

// Nobody but an administrator can end it, so the node is named.
TEST(Placing, PodOfAnEarlierJobThatDoesNotEndIsSaidToBeStuckOnItsNode) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  kube::Pod left = world.observed.pods.back();
  TestWorld next(MakeTrainingJob(1));
  left.owner_uid = "uid-0";
  left.labels[label::kJobUid] = "uid-0";
  left.is_deleting = true;
  left.deletion_due = next.now + seconds(30);
  next.observed.pods = {left};
  next.Step();
  EXPECT_EQ(MessageOf(next.job.status, ConditionType::kScheduled),
            "waits for pod mnist-worker-0 of an earlier job of this name. The job continues when "
            "the pod is deleted");

  next.Advance(seconds(30) + kOverdueAfter);
  const Decision decision = next.Step();

  EXPECT_EQ(
      MessageOf(next.job.status, ConditionType::kScheduled),
      "waits for pod mnist-worker-0 of an earlier job of this name, which does not end on node "
      "node-a although its grace period is over. The job continues when the pod is deleted");
  EXPECT_EQ(EventReasons(decision), "PodStuck");
}

TEST(Placing, AmongNodesThatRefuseTheOneThatDidSoLeastComesFirst) {
  TestWorld world(MakeTrainingJob(2));
  world.AddNode("node-b");
  std::map<std::string, int> chosen;
  for (int i = 0; i < 6; ++i) {
    world.Step();
    ++chosen[NodeOfFirst(world)];
    RefuseGang(&world);
  }
  EXPECT_EQ(chosen.size(), 2U);
  EXPECT_GE(chosen.begin()->second, 2);
  EXPECT_GE(chosen.rbegin()->second, 2);
}

TEST(Placing, PodThatTheServerRefusesSaysNothingOfItsNode) {
  TestWorld world(MakeTrainingJob(1));
  world.Step();
  world.Vanish("mnist-worker-0");
  world.observed.refused_pods["mnist-worker-0"] = {"exceeded quota: gpus", false};
  world.Step();
  EXPECT_EQ(world.job.status.rollbacks, 1);
  EXPECT_TRUE(world.job.status.suspect_nodes.empty());
}

// Nothing tells when a quota is raised.
TEST(Placing, GangThatAQuotaRefusesIsTriedAgainAtLeastOnceAMinute) {
  TestWorld world(MakeTrainingJob(1));
  for (int count = 0; count < 10; ++count) {
    world.Step();
    world.observed.pods.clear();
    const std::string pod = PodName("mnist", {Role::kWorker, 0}, {world.job.status.attempt, {}});
    world.job.status.placement.at(0).pod_uid.clear();
    world.observed.refused_pods[pod] = {"exceeded quota: gpus", false};
    const Decision decision = world.Step();
    EXPECT_EQ(decision.metrics,
              std::vector<MetricDelta>({{Metric::kRollbacks, "PodNotCreated", 1}}));
    world.observed.refused_pods.clear();
    ASSERT_TRUE(world.job.status.retry_at.has_value());
    EXPECT_LE(*world.job.status.retry_at, world.now + minutes(1));
    world.Advance(*world.job.status.retry_at - world.now);
  }
  EXPECT_EQ(world.job.status.rollbacks, 10);
}

TEST(Placing, PatienceWithTroubleBeginsWhenItIsSeen) {
  TestWorld world(MakeTrainingJob(1));
  world.Step();
  world.Step();
  world.Advance(minutes(8));
  world.Step();
  world.Find("mnist-worker-0")->status.waiting_reason = "ErrImagePull";

  EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(10));
  EXPECT_EQ(world.job.status.attempt, Attempt(0)) << "a pull may fail once";
  world.Find("mnist-worker-0")->status.waiting_reason = "";
  world.Step();
  world.Advance(minutes(1));
  world.Find("mnist-worker-0")->status.waiting_reason = "ImagePullBackOff";
  world.Step();
  world.Advance(seconds(19));
  EXPECT_EQ(world.Step().status.attempt, Attempt(0));
  world.Advance(seconds(1));
  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

TEST(Placing, ProgressExtendsTheTimeToStartUpToABound) {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.scheduling.start_timeout = minutes(2);
  TestWorld world(job);
  world.Step();
  world.Step();
  const WallTime placed = world.now;
  kube::PodStatus& status = world.Find("mnist-worker-0")->status;

  world.Advance(minutes(1));
  status.progress_at = world.now;  // bound
  world.Advance(seconds(90));
  EXPECT_EQ(world.Step().status.attempt, Attempt(0));
  status.is_initializing = true;  // for longer than the time without progress
  world.Advance(minutes(9));
  EXPECT_EQ(world.Step().status.attempt, Attempt(0));
  EXPECT_EQ(world.now, placed + minutes(11) + seconds(30));
  world.Advance(seconds(30));
  EXPECT_EQ(world.Step().status.attempt, Attempt(1)) << "six times the time is the most";
}

TEST(Placing, PodWithoutProgressHasItsTimeAndNoMore) {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.scheduling.start_timeout = minutes(2);
  TestWorld world(job);
  world.Step();
  world.Find("mnist-worker-0")->status.progress_at = world.now + minutes(60);  // a skewed clock
  world.Step();
  world.Advance(minutes(2));
  world.Find("mnist-worker-0")->status.progress_at = world.now - minutes(2);
  EXPECT_EQ(world.Step().status.attempt, Attempt(1));
}

// A job of twelve GPUs on a node of eight.
TestWorld WithoutRoom() {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 4;
  job.spec.scheduling.timeout = seconds(60);
  return TestWorld(job);
}

std::string Said(const Decision& decision) {
  std::string text;
  for (const Event& event : decision.events) {
    text += event.reason + ": " + event.message + "\n";
  }
  return text;
}

TEST(Placing, ShortfallIsToldAgainWhenAnotherNeedIsNotMet) {
  TestWorld world(MakeTrainingJob(2));
  world.job.spec.roles[0].gpus = 5;
  world.Step();
  world.AddNode("node-b");
  world.nodes()[0].allocatable.gpu_count = 2;
  world.nodes()[1].allocatable.gpu_count = 3;
  EXPECT_EQ(Said(world.Step()), "Unschedulable: worker needs 5 GPUs, the largest node offers 3\n");

  world.nodes()[1].allocatable.gpu_count = 4;
  EXPECT_EQ(Said(world.Step()), "");
  EXPECT_EQ(MessageOf(world.job.status, ConditionType::kScheduled),
            "worker needs 5 GPUs, the largest node offers 4");

  world.nodes()[0].allocatable.gpu_count = 8;
  EXPECT_EQ(Said(world.Step()),
            "Unschedulable: needs 2 worker pods of 5 GPUs each, room for 1 on 2 nodes\n");
  EXPECT_EQ(Said(world.Step()), "");
}

TEST(Placing, ResumeBeginsTheWaitForRoomAnew) {
  TestWorld world = WithoutRoom();
  world.Step();
  world.Advance(seconds(30));
  world.job.spec.run_policy.suspend = true;
  world.Step();
  world.Advance(seconds(100));
  world.job.spec.run_policy.suspend = false;

  EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(60));
  EXPECT_EQ(TrueConditions(world.job.status), "Created");
}

TEST(Placing, RolledBackGangHasNotEndedTheWaitForRoom) {
  TestWorld world = WithoutRoom();
  world.AddNode("node-b");
  world.Step();
  world.Advance(seconds(50));
  RefuseGang(&world);
  world.nodes().pop_back();
  world.Step();
  world.Advance(seconds(5));
  world.Step();

  EXPECT_EQ(FindCondition(world.job.status, ConditionType::kFailed)->reason, "SchedulingTimeout");
}

TEST(Placing, GangThatRanBeginsTheWaitForRoomAnew) {
  TestWorld world = WithoutRoom();
  world.AddNode("node-b");
  world.Launch();
  EXPECT_FALSE(world.job.status.waiting_since.has_value());
  world.Advance(seconds(1000));
  world.nodes().pop_back();
  ++world.job.metadata.generation;
  world.job.spec.roles[0].replicas = 4;
  world.job.metadata.annotations["lockstep.dev/accept-progress-loss"] = "2";
  world.Step();
  world.FinishDeletions();

  EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(60));
}

TEST(Placing, TimeInTheQueueIsNotTimeOfRunning) {
  TestWorld world = WithoutRoom();
  world.job.spec.scheduling.timeout.reset();
  world.job.spec.run_policy.active_deadline = seconds(100);
  world.Step();
  world.Advance(seconds(90));
  world.AddNode("node-b");
  world.Launch();
  world.Advance(seconds(99));
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
  world.Advance(seconds(1));
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Failed");
}

TEST(Placing, PauseBeforeARestartKeepsTheJobsPlace) {
  TestWorld world(MakeCommandJob(1));
  for (int i = 0; i < 2; ++i) {
    world.Launch();
    world.Exit(world.observed.pods.back().name, 137);
    world.Step();
    world.FinishDeletions();
    world.Step();
  }
  ASSERT_TRUE(world.job.status.retry_at.has_value());
  EXPECT_TRUE(WaitsForRoom(world.job, world.now));
}

TEST(Placing, WhatAdmissionAddsIsSaidAndCounted) {
  TrainingJob job = MakeTrainingJob(1);
  TestWorld world(job);
  world.AddNode("node-b");
  world.Step();
  kube::Pod* const pod = world.Find("mnist-worker-0");
  const std::string first = NodeOfFirst(world);
  for (kube::Node& node : world.nodes()) {
    node.allocatable.memory_bytes = node.name == first ? 4096 : 16384;
  }
  pod->spec.container.requests.memory_bytes = 8192;  // a LimitRange's default
  pod->spec.node_selector["pool"] = "training";
  pod->status.is_unbound = true;
  pod->status.unschedulable = "Insufficient memory";
  world.Step();
  world.Advance(seconds(10));
  world.Step();

  const std::string message = MessageOf(world.job.status, ConditionType::kScheduled);
  EXPECT_NE(
      message.find("the cluster has changed the pod: requests.memory is 8Ki, but the template says "
                   "0, nodeSelector.pool is training, but the template says absent"),
      std::string::npos)
      << message;
  EXPECT_EQ(world.job.status.admitted, (std::vector<RoleAmount>{{Role::kWorker, "memory", 8192}}));
  world.job.status.suspect_nodes.clear();  // what is learned is enough
  world.FinishDeletions();
  world.Advance(seconds(5));
  world.Step();
  EXPECT_NE(NodeOfFirst(world), first);
}

// The LimitRange may be gone by then.
TEST(Placing, WhatAdmissionAddedIsNamedAndAskedAnewAfterAnEdit) {
  TestWorld world(MakeTrainingJob(1));
  world.nodes()[0].allocatable.memory_bytes = int64_t{1} << 30;
  world.job.status.admitted = {{Role::kWorker, "memory", int64_t{2} << 30}};
  world.job.status.observed_generation = world.job.metadata.generation;
  const std::string message = MessageOf(world.Step().status, ConditionType::kScheduled);
  EXPECT_NE(message.find("a LimitRange or a webhook raised the requests of earlier pods above "
                         "the template's (worker has 2 GiB memory)"),
            std::string::npos)
      << message;
  EXPECT_EQ(world.Pods(), "");

  ++world.job.metadata.generation;
  world.Step();
  world.Step();
  EXPECT_EQ(world.Pods(), "mnist-worker-0");
}

TEST(Placing, OverheadAndRequiredNodeAffinityArePlanned) {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.roles[0].pod.overhead.memory_bytes = 8192;
  job.spec.roles[0].pod.node_affinity =
      std::vector<NodeTerm>{{{{"zone", NodeOperator::kNotIn, {"west"}}}, {}},
                            {{}, {{"metadata.name", NodeOperator::kIn, {"node-z"}}}}};
  TestWorld world(job);
  world.nodes()[0].labels["zone"] = "west";
  EXPECT_EQ(MessageOf(world.Step().status, ConditionType::kScheduled),
            "worker needs a node matching zone NotIn (west), or metadata.name In (node-z), none "
            "of 1 node is");
  world.nodes()[0].labels["zone"] = "east";
  world.nodes()[0].allocatable.memory_bytes = 4096;
  EXPECT_NE(MessageOf(world.Step().status, ConditionType::kScheduled).find("memory"),
            std::string::npos);
  world.nodes()[0].allocatable.memory_bytes = 8192;
  world.Step();
  EXPECT_EQ(NodeOfFirst(world), "node-a");
}

TEST(Placing, PodThatIsToGoAndNeverGotANodeIsNotAlive) {
  Observed observed;
  kube::Node node;
  node.name = "node-a";
  node.is_ready = true;
  observed.nodes = std::vector<kube::Node>{node};
  kube::Pod pod;
  pod.spec.node_name = "node-a";  // planned
  pod.is_deleting = true;
  EXPECT_TRUE(IsAlive(pod, observed));
  pod.status.is_unbound = true;  // held back by a finalizer, perhaps for ever
  EXPECT_FALSE(IsAlive(pod, observed));
  pod.is_deleting = false;
  EXPECT_TRUE(IsAlive(pod, observed));
}

TEST(Placing, FieldsThatNoPlanHeedsAreToldOnce) {
  TrainingJob job = MakeTrainingJob(1);
  EXPECT_EQ(MessageOf(TestWorld(job).Step().status, ConditionType::kFullyPlanned), "");
  job.spec.scheduling.priority_class_name = "high";
  job.spec.roles[0].pod.raw = ParseJson(R"({"spec": {
      "resourceClaims": [{"name": "gpu"}], "priorityClassName": "low",
      "volumes": [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "data"}}]}})")
                                  .value();
  TestWorld world(job);
  const Decision first = world.Step();
  EXPECT_EQ(MessageOf(first.status, ConditionType::kFullyPlanned),
            "spec.roles[0].template.spec.volumes: Lockstep does not know on which nodes the volume "
            "of a claim can be used; spec.roles[0].template.spec.resourceClaims: Lockstep does not "
            "count the devices of claims; spec.roles[0].template.spec.priorityClassName: the "
            "scheduler uses the priority class of the whole gang, high");
  job.spec.scheduling.priority_class_name = "";
  EXPECT_EQ(PriorityClassOf(job.spec), "low");
  EXPECT_NE(EventReasons(first).find("FieldsNotPlanned"), std::string::npos);
  EXPECT_EQ(EventReasons(world.Step()).find("FieldsNotPlanned"), std::string::npos);
}

// A webhook has taken the pod's affinity away, and the cluster's scheduler has chosen for itself.
TEST(Placing, PodThatIsBoundElsewhereIsNamedAndCountedWhereItIs) {
  TestWorld world(MakeTrainingJob(2));
  world.AddNode("node-b");
  world.Step();
  world.Find("mnist-worker-1")->spec.node_name = "node-b";
  world.RunAll();

  const Decision decision = world.Step();

  EXPECT_EQ(EventReasons(decision), "PodElsewhere GangRunning");
  EXPECT_EQ(decision.status.placement.at(0).node, "node-a");
  EXPECT_EQ(decision.status.placement.at(1).node, "node-b");
  const std::string message = MessageOf(decision.status, ConditionType::kScheduled);
  EXPECT_TRUE(message.starts_with(
      "pod mnist-worker-1 (rank 1) was planned for node node-a, but is bound to node node-b"))
      << message;
  EXPECT_EQ(EventReasons(world.Step()), "");
  EXPECT_EQ(MessageOf(world.job.status, ConditionType::kScheduled), message);
}

TEST(Placing, PodThatNobodyHasBoundYetIsNowhereElse) {
  TestWorld world(MakeTrainingJob(1));
  world.Step();
  kube::Pod* const pod = world.Find("mnist-worker-0");
  pod->spec.node_name.clear();
  pod->status.is_unbound = true;

  world.Step();

  EXPECT_EQ(world.job.status.placement.at(0).node, "node-a");
  EXPECT_EQ(FindCondition(world.job.status, ConditionType::kScheduled)->reason, "GangPlaced");
}

// A LimitRange has made them so; nobody knew before they were made.
TEST(Placing, GangWhosePodsAskForMoreThanItsQueueMayHoldIsRolledBackBeforeItRuns) {
  TestWorld world(MakeTrainingJob(1));
  world.Step();
  kube::Pod* const pod = world.Find("mnist-worker-0");
  ASSERT_NE(pod, nullptr);
  EXPECT_FALSE(AskForMore(world.job, {*pod}));
  pod->spec.container.requests.memory_bytes = int64_t{2} << 30;
  EXPECT_TRUE(AskForMore(world.job, {*pod}));
  world.observed.quota_excess =
      "queue default would be 1 GiB memory over its nominal 1 GiB, and may borrow none";

  const Decision decision = world.Step();
  EXPECT_EQ(EventReasons(decision), "QuotaExceeded");
  EXPECT_EQ(MessageOf(decision.status, ConditionType::kScheduled),
            "the gang is rolled back: a LimitRange or a webhook raised the requests of its pods "
            "above the template's (worker has 2 GiB memory): queue default would be 1 GiB memory "
            "over its nominal 1 GiB, and may borrow none; next try after 5 s");
  EXPECT_TRUE(decision.status.placement.empty());
  EXPECT_TRUE(decision.status.suspect_nodes.empty());
  EXPECT_EQ(decision.status.admitted,
            (std::vector<RoleAmount>{{Role::kWorker, "memory", int64_t{2} << 30}}))
      << "the next plan counts it";
}

TEST(Placing, GangThatHasRunStaysThoughItsQueueMayNotHoldIt) {
  TestWorld world(MakeTrainingJob(1));
  world.Launch();
  world.Find("mnist-worker-0")->spec.container.requests.memory_bytes = 4096;
  world.observed.quota_excess = "queue default would be over";
  EXPECT_FALSE(world.Step().status.placement.empty());
}

}  // namespace
}  // namespace lockstep::control
