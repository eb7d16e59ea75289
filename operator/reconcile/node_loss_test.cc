#include <set>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/hung_rank.h"
#include "operator/reconcile/testing/fake_world.h"

// What a lost node means, and what it does not: a process is judged by who hears it, not by whether
// its node's kubelet reports.

namespace lockstep::control {
namespace {

using std::chrono::seconds;

// Three workers of one GPU each, two on node-a and the last on node-b, which all answer.
TestWorld RunningWorld(TrainingJob job = MakeTrainingJob(3)) {
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.AddNode("node-b");
  world.nodes()[0].allocatable.gpu_count = 2;
  world.nodes()[1].allocatable.gpu_count = 2;
  world.Launch();
  world.ReportAll();
  EXPECT_EQ(world.Find("mnist-worker-2")->spec.node_name, "node-b");
  return world;
}

// Peers see rank 2 in this state for so long, and it has not answered us for two seconds.
void Accuse(PeerState state, double silent_seconds, TestWorld* world) {
  world->observed.reports["mnist-worker-2"].age = seconds(2);
  for (const char* pod : {"mnist-worker-0", "mnist-worker-1"}) {
    for (PeerStatus& peer : world->observed.reports[pod].document.peers) {
      if (peer.rank == 2) {
        peer.state = state;
        peer.silent_seconds = silent_seconds;
      }
    }
  }
}

// Many ranks share few cores: after a loss it takes them seconds to connect anew.
TEST(NodeLoss, OnOneMachineARankThatHasLostItsPeersIsNotLostWithTheMachine) {
  for (const bool is_one_machine : {true, false}) {
    TestWorld world = RunningWorld();
    world.observed.is_one_machine = is_one_machine;
    Accuse(PeerState::kLost, 5, &world);
    world.Step();
    EXPECT_EQ(DescribeRestarts(world.job.status), is_one_machine ? "" : "node_lost=1");
  }
}

TEST(NodeLoss, LateLeaseOfAHealthyGangsNodeIsNoReasonForAnything) {
  TestWorld world = RunningWorld();
  world.nodes()[1].is_ready = false;
  world.nodes()[1].is_schedulable = false;
  EXPECT_EQ(DescribeEffects(world.Step()), "");

  // Nor when Kubernetes evicts what it cannot reach, while peers hear it.
  world.Find("mnist-worker-2")->is_deleting = true;
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.observed.reports.erase("mnist-worker-2");  // we cannot reach it either
  EXPECT_EQ(DescribeEffects(world.Step()), "");
}

TEST(NodeLoss, NodeObjectThatIsGoneIsNoReasonWhilePeersHearItsProcess) {
  TestWorld world = RunningWorld();
  world.nodes().pop_back();
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.observed.reports.clear();  // nobody hears anything any more

  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "node_lost=1");
}

// The operator restarts, or the network between it and everybody else is down for a minute.
TEST(NodeLoss, OperatorThatHearsNobodyDoesNothing) {
  TestWorld world = RunningWorld();
  for (kube::Node& node : world.nodes()) {
    node.is_ready = false;
    node.is_schedulable = false;
  }
  world.Advance(seconds(60));
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.observed.reports.clear();
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  EXPECT_EQ(TrueConditions(world.job.status), "Created Scheduled Running");
}

TEST(NodeLoss, SilentRankIsReplacedElsewhereAndNothingWaitsForItsKubelet) {
  TestWorld world = RunningWorld();
  world.AddNode("node-c");
  Accuse(PeerState::kSilent, 1.6, &world);

  EXPECT_EQ(DescribeEffects(world.Step()),
            "delete pod mnist-worker-2 within 0 s: replaced\n"
            "tell pod mnist-worker-0: peer_gone rank 2, epoch 1\n"
            "tell pod mnist-worker-1: peer_gone rank 2, epoch 1\n");
  EXPECT_EQ(DescribeEffects(world.Step()),  // it has been asked to end: nobody waits until it has
            "create pod mnist-worker-2-r1 on node node-c\n");
  EXPECT_EQ(DescribeRestarts(world.job.status), "hang=1");
}

TEST(NodeLoss, RankThatLostItsPeersIsGivenUpWhenNoKubeletTellsOfItsEnd) {
  TestWorld world = RunningWorld();
  world.AddNode("node-c");
  Accuse(PeerState::kLost, 2.9, &world);
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  Accuse(PeerState::kLost, 3.0, &world);

  world.Step();
  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "node_lost=1");
  EXPECT_EQ(world.Find("mnist-worker-2-r1")->spec.node_name, "node-c");
}

TEST(NodeLoss, RankThatSaidItEndsIsLeftToItsKubelet) {
  for (const Phase phase : {Phase::kStopping, Phase::kSucceeded, Phase::kFailed}) {
    TestWorld world = RunningWorld();
    Accuse(PeerState::kLost, 60, &world);
    world.observed.reports["mnist-worker-2"].document.phase = phase;

    EXPECT_EQ(DescribeEffects(world.Step()), "") << PhaseName(phase);
  }
}

// Rank 2 froze, and then everybody who had met it was replaced: the newcomers wait for it.
TestWorld WorldWithAnAbsentRank(PeerState state, double waited_seconds) {
  TestWorld world = RunningWorld();
  world.Advance(seconds(3600));
  for (const char* pod : {"mnist-worker-0", "mnist-worker-1"}) {
    world.Exit(pod, 137);
  }
  world.Step();
  world.RunAll();
  world.Step();
  world.ReportAll();
  world.Advance(seconds(15));
  for (auto& [pod, report] : world.observed.reports) {
    report.age = seconds(pod == "mnist-worker-2" ? 15 : 0);
    for (PeerStatus& peer : report.document.peers) {
      if (peer.rank == 2) {
        peer = {2, Incarnation(0), state, "", waited_seconds};
      }
    }
  }
  return world;
}

TEST(AbsentRank, IsReplacedWhenAMeetingHasWaitedForItInVain) {
  TestWorld early = WorldWithAnAbsentRank(PeerState::kMissing, 14.9);
  early.Step();
  EXPECT_EQ(DescribeRestarts(early.job.status), "killed=2");

  TestWorld world = WorldWithAnAbsentRank(PeerState::kMissing, 15);
  world.Step();
  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "hang=1 killed=2");
  EXPECT_NE(world.Find("mnist-worker-2-r1"), nullptr);
}

// Rank 2 is lost, its successor waits for room for a while, and has just started.
TEST(AbsentRank, SuccessorThatWaitedForRoomHasNotBeenWaitedForInVain) {
  TestWorld world = RunningWorld();
  world.Exit("mnist-worker-2", 137);
  for (kube::Node& node : world.nodes()) {
    node.is_schedulable = false;
  }
  world.Step();
  world.FinishDeletions();
  ASSERT_EQ(world.Find("mnist-worker-2-r1"), nullptr);
  world.Advance(seconds(40));
  for (kube::Node& node : world.nodes()) {
    node.is_schedulable = true;
  }
  world.Step();
  world.Step();
  ASSERT_NE(world.Find("mnist-worker-2-r1"), nullptr);
  world.RunAll();
  world.ReportAll();
  world.observed.reports.erase("mnist-worker-2-r1");
  for (auto& [pod, report] : world.observed.reports) {
    for (PeerStatus& peer : report.document.peers) {
      peer = peer.rank == 2 ? PeerStatus{2, Incarnation(0), PeerState::kLost, "", 40} : peer;
    }
  }

  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1");
}

TEST(AbsentRank, IsSparedWhileAnybodyHearsIt) {
  struct Case {
    const char* what;
    void (*change)(TestWorld*);
  };

  const std::vector<Case> cases = {
      {"it has answered us since",
       [](TestWorld* world) { world->observed.reports["mnist-worker-2"].age = seconds(14); }},
      {"another peer hears it",
       [](TestWorld* world) {
         auto& peers = world->observed.reports["mnist-worker-1-r1"].document.peers;
         for (PeerStatus& peer : peers) {
           peer.state = PeerState::kConnected;
           peer.silent_seconds = 0;
         }
       }},
      {"the gang has been whole for a moment only",
       [](TestWorld* world) { world->now -= seconds(1); }},
  };
  for (const Case& one : cases) {
    TestWorld world = WorldWithAnAbsentRank(PeerState::kMissing, 15);
    one.change(&world);
    world.Step();

    EXPECT_EQ(DescribeRestarts(world.job.status), "killed=2") << one.what;
  }
}

TEST(NodeLoss, PodThatVanishedIsReplacedUnderANewName) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Vanish("mnist-worker-1");

  world.Step();

  EXPECT_EQ(DescribeRestarts(world.job.status), "deleted=1");
  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1-r1");
}

TEST(NodeLoss, PodThatWasBeingEvictedWhenItVanishedIsSaidToBeSo) {
  TestWorld world(MakeTrainingJob(2));
  world.Launch();
  world.Find("mnist-worker-1")->is_deleting = true;
  world.Find("mnist-worker-1")->status.disruption = "EvictionByEvictionAPI";
  world.Step();
  EXPECT_EQ(world.job.status.placement[1].disruption, "EvictionByEvictionAPI");
  world.Vanish("mnist-worker-1");

  EXPECT_NE(world.Step().events.front().message.find("was evicted (EvictionByEvictionAPI)"),
            std::string::npos);
  EXPECT_EQ(DescribeRestarts(world.job.status), "evicted=1");
  EXPECT_EQ(world.job.status.placement[1].disruption, "");
}

TEST(NodeLoss, PodThatADeadKubeletShouldEndIsGivenUp) {
  TestWorld world = RunningWorld();
  world.observed.reports.clear();
  world.nodes()[1].is_ready = false;
  world.Find("mnist-worker-2")->is_deleting = true;  // evicted by Kubernetes
  world.AddNode("node-c");

  const std::string effects = DescribeEffects(world.Step());

  EXPECT_EQ(effects.find("delete pod mnist-worker-2 within 0 s: replaced\n"), 0U) << effects;
  EXPECT_EQ(world.Find("mnist-worker-2-r1")->spec.node_name, "node-c");
  EXPECT_EQ(world.job.status.restarts.front().cause, "node_lost");
}

TEST(NodeLoss, GangOfACommandStartsAnewOnceNobodyCanWriteOnTheDeadNode) {
  TestWorld world = RunningWorld(MakeCommandJob(3));
  world.nodes()[1].is_ready = false;
  world.observed.reports.clear();
  world.Find("mnist-worker-2")->is_deleting = true;
  world.AddNode("node-c");

  EXPECT_EQ(DescribeEffects(world.Step()).find("mnist-worker-2"), std::string::npos);
  world.Vanish("mnist-worker-0");
  world.Vanish("mnist-worker-1");
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  EXPECT_EQ(FindCondition(world.job.status, ConditionType::kScheduled)->reason, "PodStuck");
  world.nodes()[1].taints = {{"node.kubernetes.io/out-of-service", "", "NoExecute"}};
  const std::string effects = DescribeEffects(world.Step());
  EXPECT_EQ(
      effects.find(
          "delete pod mnist-worker-2 within 0 s: the attempt is over, and the pod's node does not"),
      0U)
      << effects;

  EXPECT_EQ(world.Pods(), "mnist-worker-0-a1 mnist-worker-1-a1 mnist-worker-2- mnist-worker-2-a1");
}

TEST(Successor, CrashedProcessStaysOnItsNode) {
  TestWorld world = RunningWorld();
  world.AddNode("node-c");
  world.Exit("mnist-worker-2", 139);
  world.Step();

  EXPECT_EQ(world.Find("mnist-worker-2-r1")->spec.node_name, "node-b");
}

TEST(Successor, GoesElsewhereWhenItsNodeTakesItNoMore) {
  struct Case {
    const char* what;
    void (*change)(TestWorld*);
  };

  const std::vector<Case> cases = {
      {"cordoned", [](TestWorld* world) { world->nodes()[1].is_schedulable = false; }},
      {"not ready", [](TestWorld* world) { world->nodes()[1].is_ready = false; }},
      {"tainted",
       [](TestWorld* world) {
         world->nodes()[1].taints = {{"k", "", "NoSchedule"}};
       }},
      {"full",
       [](TestWorld* world) {
         world->observed.used_elsewhere.by_jobs.Edit()["node-b"].resources.gpu_count = 2;
       }},
  };
  for (const Case& one : cases) {
    TestWorld world = RunningWorld();
    world.AddNode("node-c");
    one.change(&world);
    world.Exit("mnist-worker-2", 139);
    world.Step();

    EXPECT_EQ(world.Find("mnist-worker-2-r1")->spec.node_name, "node-c") << one.what;
  }
}

TEST(Successor, EvictedPodGoesElsewhere) {
  TestWorld world = RunningWorld();
  world.AddNode("node-c");
  world.Exit("mnist-worker-2", 137);
  world.Find("mnist-worker-2")->status.reason = "Evicted";
  world.Step();

  EXPECT_EQ(world.Find("mnist-worker-2-r1")->spec.node_name, "node-c");
}

TEST(Successor, ReturnsToTheSuspectNodeOnlyWhereNoOtherHasRoomAndItIsReady) {
  TestWorld world = RunningWorld();  // node-a is full
  Accuse(PeerState::kSilent, 1.6, &world);
  world.Step();
  EXPECT_EQ(world.job.status.placement[2].node, "node-b");

  TestWorld other = RunningWorld();
  other.nodes()[1].is_ready = false;
  Accuse(PeerState::kSilent, 1.6, &other);
  other.Step();
  EXPECT_EQ(other.job.status.placement[2].node, "");
}

TEST(Successor, WithoutRoomSurvivorsHoldUntilThereIsSome) {
  TestWorld world = RunningWorld();
  world.nodes()[1].is_ready = false;
  Accuse(PeerState::kSilent, 1.6, &world);
  Decision decision = world.Step();
  EXPECT_EQ(DescribeEffects(decision),
            "delete pod mnist-worker-2 within 0 s: replaced\n"
            "tell pod mnist-worker-0: peer_gone rank 2, epoch 1\n"
            "tell pod mnist-worker-1: peer_gone rank 2, epoch 1\n");
  world.FinishDeletions();
  world.Advance(seconds(1));
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.AddNode("node-c");

  EXPECT_EQ(DescribeEffects(world.Step()), "create pod mnist-worker-2-r1 on node node-c\n");
  EXPECT_EQ(DescribeRestarts(world.job.status), "hang=1");
}

TEST(Successor, WithoutRoomInTimeTheGangStartsAnew) {
  TestWorld world = RunningWorld();
  world.nodes()[1].is_ready = false;
  Accuse(PeerState::kSilent, 1.6, &world);
  world.Step();
  world.Advance(seconds(60));

  world.Step();

  EXPECT_EQ(world.job.status.attempt, Attempt(1));
  EXPECT_EQ(DescribeRestarts(world.job.status), "hang=1 start_timeout=1");
}

TEST(Successor, TwoOfOneLostNodeShareTheRoomThatIsLeft) {
  TestWorld world = RunningWorld();
  world.observed.reports.clear();
  world.nodes().erase(world.nodes().begin());
  world.AddNode("node-c");
  world.nodes().back().allocatable.gpu_count = 1;
  world.Step();

  std::multiset<std::string> nodes;
  for (const PodPlacement& placement : world.job.status.placement) {
    nodes.insert(placement.node);
  }
  EXPECT_EQ(nodes, (std::multiset<std::string>{"node-b", "node-b", "node-c"}));
}

TEST(Successor, WithDirectBindingWaitsUntilItsPredecessorIsGone) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.scheduling.binding = PodBinding::kDirect;
  TestWorld world = RunningWorld(job);
  Accuse(PeerState::kSilent, 1.6, &world);
  world.Step();
  world.Step();
  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1 mnist-worker-2-");
  world.FinishDeletions();
  world.Step();

  EXPECT_EQ(world.Pods(), "mnist-worker-0 mnist-worker-1 mnist-worker-2-r1");
}

TEST(RestartPause, GrowsWhileTheGangBreaksAtItsStartAndNotAfterAMinute) {
  TestWorld world(MakeCommandJob(1));
  for (const int64_t pause : {0, 1, 2, 4}) {
    world.Launch();
    world.Exit(world.observed.pods.back().name, 137);
    world.Step();
    EXPECT_EQ(world.job.status.retry_at.has_value(), pause > 0);
    world.FinishDeletions();
    world.Step();
    EXPECT_EQ(world.observed.pods.empty(), pause > 0) << pause;
    world.Advance(seconds(pause));
  }
  world.Launch();
  world.Advance(seconds(60));
  world.Exit(world.observed.pods.back().name, 137);
  world.Step();

  EXPECT_FALSE(world.job.status.retry_at.has_value());
  EXPECT_EQ(world.job.status.quick_restarts, 1);
}

}  // namespace
}  // namespace lockstep::control
