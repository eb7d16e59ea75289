#include "operator/reconcile/failure/start_problem.h"

#include <functional>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/testing/fake_world.h"

// A gang runs as a whole or not at all: one pod that cannot start sends the others back.

namespace lockstep::control {
namespace {

using std::chrono::seconds;

using Trouble = std::function<void(const std::string& pod, TestWorld*)>;

constexpr const char* kLast = "mnist-worker-3";

Trouble Refused(const std::string& reason) {
  return [reason](const std::string& pod, TestWorld* world) {
    world->Find(pod)->status.phase = kube::PodPhase::kFailed;
    world->Find(pod)->status.reason = reason;
    world->Find(pod)->status.message = "the kubelet's words";
  };
}

Trouble Waiting(const std::string& reason) {
  return [reason](const std::string& pod, TestWorld* world) {
    world->Find(pod)->status.waiting_reason = reason;
    world->Find(pod)->status.waiting_message = "the kubelet's words";
  };
}

void CannotBeBound(const std::string& pod, TestWorld* world) {
  world->Find(pod)->status.is_unbound = true;
  world->Find(pod)->status.unschedulable = "0/1 nodes are available";
}

void IsNotBound(const std::string& pod, TestWorld* world) {
  world->Find(pod)->status.is_unbound = true;
}

void WaitsForASilentNode(const std::string& /*pod*/, TestWorld* world) {
  world->nodes().front().is_ready = false;
}

// As if it had never been there.
void RefuseToCreate(const std::string& pod, const PodRefusal& refusal, TestWorld* world) {
  world->Vanish(pod);
  world->job.status.placement[static_cast<std::size_t>(pod.back() - '0')].pod_uid.clear();
  world->observed.refused_pods[pod] = refusal;
}

void IsNotCreated(const std::string& pod, TestWorld* world) {
  RefuseToCreate(pod, {"exceeded quota: gpus", false}, world);
}

struct RollbackCase {
  const char* what;
  Trouble trouble;
  seconds patience;
  const char* reason;
  const char* message;  // the start of the condition's
};

std::vector<RollbackCase> RollbackCases() {
  return {
      {"kubelet, device plugin",
       Refused("UnexpectedAdmissionError"),
       seconds(0),
       "PodRefused",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) was refused by node-a: "
       "UnexpectedAdmissionError: the kubelet's words; next try after 5 s"},
      {"kubelet, no room",
       Refused("OutOfnvidia.com/gpu"),
       seconds(0),
       "PodRefused",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) was refused by node-a: "
       "OutOfnvidia.com/gpu"},
      {"kubelet, disk pressure",
       Refused("Evicted"),
       seconds(0),
       "PodRefused",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) was refused by node-a: Evicted"},
      {"server, quota",
       IsNotCreated,
       seconds(0),
       "PodNotCreated",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) was not created: exceeded quota: "
       "gpus"},
      {"image",
       Waiting("ImagePullBackOff"),
       kImagePatience,
       "ImagePullFailed",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) cannot pull its image "
       "(ImagePullBackOff): the"},
      {"container",
       Waiting("CreateContainerConfigError"),
       kImagePatience,
       "ContainerNotCreated",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) cannot start its container "
       "(CreateCont"},
      {"scheduler says no",
       CannotBeBound,
       kUnschedulablePatience,
       "PodUnschedulable",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) cannot be bound to node-a: 0/1 nodes "
       "are"},
      {"scheduler says nothing",
       IsNotBound,
       kUnboundPatience,
       "PodNotBound",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) was not bound to node-a within 60 s"},
      {"node",
       WaitsForASilentNode,
       kNodePatience,
       "NodeNotReady",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) waits for node node-a, which is not "
       "ready"},
      {"nobody says anything",
       [](const std::string&, TestWorld*) {},
       seconds(600),
       "StartTimeout",
       "the gang is rolled back: pod mnist-worker-3 (rank 3) did not start within 600 s"},
  };
}

// Three of four pods run, and the fourth is in trouble.
TestWorld WorldIn(const Trouble& trouble) {
  TestWorld world(MakeTrainingJob(4));
  world.Step();
  world.RunAll();
  world.Find(kLast)->status.phase = kube::PodPhase::kPending;
  world.Step();
  trouble(kLast, &world);
  return world;
}

TEST(RollBack, OnePodThatCannotStartTakesTheWholeGangBackInBoundedTime) {
  for (const RollbackCase& one : RollbackCases()) {
    SCOPED_TRACE(one.what);
    TestWorld world = WorldIn(one.trouble);
    if (one.patience > seconds(0)) {
      world.Step();
      world.Advance(one.patience - seconds(1));
      const Decision early = world.Step();
      EXPECT_EQ(early.status.attempt, Attempt(0));
      EXPECT_EQ(early.next_wakeup, world.now + seconds(1));
      world.Advance(seconds(1));
    }

    const Decision decision = world.Step();

    EXPECT_EQ(decision.status.attempt, Attempt(1));
    EXPECT_EQ(decision.status.epoch, Epoch(1));
    EXPECT_TRUE(decision.status.placement.empty());
    EXPECT_EQ(decision.status.rollbacks, 1);
    EXPECT_EQ(decision.status.retry_at, world.now + seconds(5));
    EXPECT_EQ(DescribeRestarts(decision.status), "");
    EXPECT_EQ(EventReasons(decision), one.reason);
    EXPECT_EQ(ReasonOf(world.job.status, ConditionType::kScheduled), one.reason);
    const std::string message = MessageOf(decision.status, ConditionType::kScheduled);
    EXPECT_TRUE(message.starts_with(one.message)) << message;
    world.FinishDeletions();
    EXPECT_EQ(world.Pods(), "");
  }
}

TEST(RollBack, PodsGetAShortGraceBecauseThereIsNothingToSave) {
  TestWorld world = WorldIn(Refused("OutOfcpu"));

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-0 within 5 s: the attempt is over\ndelete pod mnist-worker-1 "
            "within 5 s: the attempt is over\ndelete pod mnist-worker-2 within 5 s: the attempt is "
            "over\ndelete pod mnist-worker-3 within 5 s: the attempt is over\n");
}

TEST(RollBack, JobPausesLongerEachTimeAndHoldsUpNobodyMeanwhile) {
  TestWorld world(MakeTrainingJob(1));
  for (const int64_t delay : {5, 10, 20}) {
    world.Step();
    world.observed.pods.back().status.phase = kube::PodPhase::kFailed;
    world.observed.pods.back().status.reason = "OutOfcpu";
    world.Step();
    EXPECT_FALSE(WaitsForRoom(world.job, world.now));
    world.FinishDeletions();
    EXPECT_EQ(world.Step().next_wakeup, world.now + seconds(delay));
    EXPECT_EQ(world.Pods(), "");
    world.Advance(seconds(delay));
    EXPECT_TRUE(WaitsForRoom(world.job, world.now));
  }
  world.Launch();

  EXPECT_EQ(world.Pods(), "mnist-worker-0-a3");
  EXPECT_EQ(world.job.status.rollbacks, 0);
  EXPECT_FALSE(world.job.status.retry_at.has_value());
}

TEST(RollBack, ChangedManifestIsTriedAtOnce) {
  TestWorld world = WorldIn(Refused("OutOfcpu"));
  world.Step();
  world.FinishDeletions();
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  ++world.job.metadata.generation;

  world.Step();

  EXPECT_EQ(world.observed.pods.size(), 4U);
}

TEST(RollBack, PeersThatGaveUpWaitingAreNotCounted) {
  TestWorld world = WorldIn(Refused("OutOfcpu"));
  world.Exit("mnist-worker-0", 75);

  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "");
  EXPECT_EQ(world.job.status.rollbacks, 1);
}

TEST(RollBack, PeersMayWaitForASlowImageAsOftenAsTheyLike) {
  TestWorld world = WorldIn([](const std::string&, TestWorld*) {});
  world.Exit("mnist-worker-0", 75);

  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "not_started=1");
  EXPECT_EQ(world.Pods(),
            "mnist-worker-0 mnist-worker-0-r1 mnist-worker-1 mnist-worker-2 mnist-worker-3");
}

TEST(RollBack, PermanentFailureOfAPeerStillEndsTheJob) {
  TestWorld world = WorldIn(Refused("OutOfcpu"));
  world.Exit("mnist-worker-0", 64);

  world.Step();

  EXPECT_TRUE(IsTrue(world.job.status, ConditionType::kFailed));
}

TEST(RollBack, WhatNoLaterTryCanMendFailsTheJobAtOnce) {
  TestWorld world = WorldIn(Waiting("InvalidImageName"));
  world.Step();
  EXPECT_EQ(MessageOf(world.job.status, ConditionType::kFailed),
            "pod mnist-worker-3 (rank 3) has an invalid image name: the kubelet's words");

  TestWorld other = WorldIn([](const std::string& pod, TestWorld* it) {
    RefuseToCreate(pod, {"spec.volumes[0].name: Required value", true}, it);
  });
  other.Step();
  EXPECT_EQ(FindCondition(other.job.status, ConditionType::kFailed)->reason, "InvalidPod");
  EXPECT_EQ(MessageOf(other.job.status, ConditionType::kFailed),
            "pod mnist-worker-3 (rank 3) was not created: spec.volumes[0].name: Required value. If "
            "the manifest does not set the refused field, a LimitRange or an admission webhook of "
            "the job's namespace may have set it");
}

// Every way in which three pods can fare: a minute later all run, or none is left.
TEST(RollBack, GangIsNeverLeftInPart) {
  const std::vector<Trouble> fates = {[](const std::string&, TestWorld*) {},
                                      Refused("OutOfcpu"),
                                      Waiting("ErrImagePull"),
                                      CannotBeBound,
                                      IsNotCreated};
  for (std::size_t pattern = 0; pattern < 5 * 5 * 5; ++pattern) {
    SCOPED_TRACE(pattern);
    TestWorld world(MakeTrainingJob(4));
    world.Step();
    world.RunAll();
    std::size_t rest = pattern;
    for (const std::string pod : {"mnist-worker-1", "mnist-worker-2", "mnist-worker-3"}) {
      if (rest % 5 != 0) {
        world.Find(pod)->status.phase = kube::PodPhase::kPending;
      }
      fates[rest % 5](pod, &world);
      rest /= 5;
    }
    if (world.Step().status.attempt == Attempt(0)) {
      world.Advance(seconds(60));
      world.Step();
    }
    world.FinishDeletions();

    const std::size_t left = world.observed.pods.size();
    EXPECT_EQ(left, pattern == 0 ? 4U : 0U) << world.Pods();
  }
}

// A gang of three that runs on two nodes, of which rank 1 is being replaced.
TestWorld Replacing() {
  TestWorld world(MakeTrainingJob(3));
  world.AddNode("node-b");
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  return world;
}

void Refuse(const std::string& pod, TestWorld* world) {
  world->Find(pod)->status.phase = kube::PodPhase::kFailed;
  world->Find(pod)->status.reason = "UnexpectedAdmissionError";
}

TEST(ReplacementLadder, OneThatCannotStartIsTriedElsewhereThenTheGangStartsAnew) {
  TestWorld world = Replacing();
  Refuse("mnist-worker-1-r1", &world);
  EXPECT_EQ(DescribeEffects(world.Step()), "create pod mnist-worker-1-r2 on node node-b\n");
  EXPECT_EQ(FindCondition(world.job.status, ConditionType::kRestarting)->reason,
            "ReplacementMoved");
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1 not_started=1");
  Refuse("mnist-worker-1-r2", &world);

  world.Step();

  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1 not_started=1 start_timeout=1");
}

TEST(ReplacementLadder, LaterReplacementClimbsItAnew) {
  TestWorld world = Replacing();
  Refuse("mnist-worker-1-r1", &world);
  world.Step();
  world.RunAll();
  world.Step();
  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Running");
  world.Exit("mnist-worker-1-r2", 137);
  world.Step();
  Refuse("mnist-worker-1-r3", &world);
  world.Step();

  EXPECT_NE(world.Find("mnist-worker-1-r4"), nullptr);
  EXPECT_EQ(world.job.status.attempt, Attempt(0));
}

TEST(ReplacementLadder, OneWhosePeersDoNotMeetItStartsTheGangAnew) {
  TestWorld world = Replacing();
  world.RunAll();
  world.Step();
  world.Exit("mnist-worker-1-r1", 75);  // the others run, and are deaf

  world.Step();
  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1 unreachable=1");
}

TEST(ReplacementLadder, WithoutAnotherNodeTheGangStartsAnew) {
  TestWorld world = Replacing();
  world.nodes().pop_back();
  Refuse("mnist-worker-1-r1", &world);

  world.Step();

  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1 start_timeout=1");
}

TEST(ReplacementLadder, GangThatStartsAnewForItsSuccessorPaysOnce) {
  TestWorld world = Replacing();
  world.job.spec.run_policy.backoff_limit = 1;
  world.nodes().pop_back();
  Refuse("mnist-worker-1-r1", &world);

  world.Step();

  EXPECT_FALSE(HasEnded(world.job.status));
  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(CountedIncidents(world.job.status.incidents), 1);
}

// Whatever befalls the others meanwhile.
TEST(ReplacementLadder, OneIsTriedElsewhereOnceUntilTheGangIsWhole) {
  TestWorld world = Replacing();
  world.AddNode("node-c");
  Refuse("mnist-worker-1-r1", &world);
  world.Step();
  ASSERT_NE(world.Find("mnist-worker-1-r2"), nullptr);
  world.Exit("mnist-worker-0", 137);
  world.Step();
  ASSERT_EQ(FindCondition(world.job.status, ConditionType::kRestarting)->reason, "RankReplaced");
  Refuse("mnist-worker-1-r2", &world);

  world.Step();

  EXPECT_EQ(world.Find("mnist-worker-1-r3"), nullptr);
  EXPECT_EQ(world.job.status.attempt, Attempt(1));
}

// The story: attempt 0 ran and broke, attempt 1 is placed, and another leader takes over whose
// clock is an hour behind. To it both moments are now.
TEST(HandOver, ClockThatIsBehindMakesNoGangRun) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.FinishDeletions();
  world.Vanish("mnist-worker-1");
  world.Advance(std::chrono::minutes(1));
  world.Step();
  ASSERT_EQ(TrueConditions(world.job.status), "Created Scheduled Restarting");
  world.now -= std::chrono::hours(1);
  const std::string restarts = DescribeRestarts(world.job.status);
  Refuse(world.observed.pods.back().name, &world);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), restarts) << "rolled back, not restarted";
  EXPECT_EQ(decision.status.rollbacks, 1);
}

// A policy's change was named for requests, and only after a rollback.
TEST(StartProblem, WhatAPolicyAddedIsNamedAsSoonAsThePodIsNotBound) {
  TestWorld world(MakeTrainingJob(1));
  world.Step();
  kube::Pod* const pod = world.Find("mnist-worker-0");
  pod->spec.node_selector["pool"] = "training";
  pod->spec.scheduler_name = "other";
  pod->spec.hard_rules = {"affinity.podAntiAffinity"};
  pod->status.is_unbound = true;
  pod->status.unschedulable = "didn't match Pod's node affinity/selector";
  const std::string message = MessageOf(world.Step().status, ConditionType::kScheduled);
  EXPECT_NE(
      message.find(
          "the operator waits for the pod; the cluster has changed the pod: nodeSelector.pool is "
          "training, but the template says absent, schedulerName is other, but the template says "
          "default-scheduler, affinity.podAntiAffinity is set, but the template says absent"),
      std::string::npos)
      << message;
}

TEST(StartProblem, LabelsThatKueueAsksForAreNobodysChange) {
  TestWorld world(MakeTrainingJob(1));
  world.Step();
  KueuePodSet pod_set;
  pod_set.role = Role::kWorker;
  pod_set.node_selector = {{"pool", "training"}};
  world.job.status.kueue.emplace().pod_sets = {pod_set};
  kube::Pod* const pod = world.Find("mnist-worker-0");
  pod->spec.node_selector["pool"] = "training";
  pod->status.is_unbound = true;
  pod->status.unschedulable = "Insufficient cpu";
  const std::string message = MessageOf(world.Step().status, ConditionType::kScheduled);
  EXPECT_NE(message.find("Insufficient cpu"), std::string::npos) << message;
  EXPECT_EQ(message.find("the cluster has changed the pod"), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::control
