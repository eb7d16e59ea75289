#include <string>

#include <gtest/gtest.h>

#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/verdict_patience.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// Rank 1 of three has ended; the others tell, and its port, but no kubelet yet.
TestWorld WorldWithUntoldEnd(TrainingJob job = MakeTrainingJob(3)) {
  TestWorld world(std::move(job));
  world.Launch();
  world.ReportAll();
  world.observed.closed_pods = {"mnist-worker-1"};
  for (const char* pod : {"mnist-worker-0", "mnist-worker-2"}) {
    StatusDocument& document = world.observed.reports[pod].document;
    document.phase = Phase::kRendezvous;
    for (PeerStatus& peer : document.peers) {
      peer.state = peer.rank == 1 ? PeerState::kLost : peer.state;
    }
  }
  return world;
}

TEST(DecideUntoldEnd, RankIsReplacedBeforeItsKubeletTells) {
  TestWorld world = WorldWithUntoldEnd();

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision),
            "create pod mnist-worker-1-r1 on node node-a\n"
            "tell pod mnist-worker-0: peer_gone rank 1, epoch 1\n"
            "tell pod mnist-worker-2: peer_gone rank 1, epoch 1\n");
  EXPECT_EQ(DescribeRestarts(decision.status), "ended=1");
  EXPECT_TRUE(decision.metrics.empty());
}

TEST(DecideUntoldEnd, CauseIsWrittenDownAndCountedWhenTheKubeletTells) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  world.Exit("mnist-worker-1", 137, "OOMKilled");
  world.Find("mnist-worker-1")->status.termination->message = "the last line of its log";

  const Decision decision = world.Step();

  EXPECT_EQ(decision.events.front().message.find("its log"), std::string::npos);
  EXPECT_EQ(DescribeRestarts(decision.status), "oom=1");
  ASSERT_EQ(decision.metrics.size(), 1U);
  EXPECT_EQ(decision.metrics.front().label, "oom");
  EXPECT_EQ(EventReasons(decision), "PodEnded");
  EXPECT_EQ(DescribeEffects(decision), "delete pod mnist-worker-1 within 0 s: replaced\n");
}

// Two ranks trained to the end, and a third was deleted before it had; the first to tell of them is
// the one that is left alone.
TEST(DecideUntoldEnd, EndThatTurnsOutToBeDoneWorkCostsNothing) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  world.Exit("mnist-worker-1", 0);
  TerminationMessage words;
  words.outcome = Outcome::kSuccess;
  world.Find("mnist-worker-1")->status.termination->message = EncodeTerminationMessage(words);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "completed=1");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
  ASSERT_EQ(EventReasons(decision), "PodEnded");
  EXPECT_EQ(decision.events.front().message,
            "pod mnist-worker-1 (rank 1) completed (exit code 0), cause completed");
}

TEST(DecideUntoldEnd, EndThatIsNotForgivenFailsTheJobAllTheSame) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  world.Exit("mnist-worker-1", 64);

  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Failed");
}

TEST(DecideUntoldEnd, NobodyWaitsLongForAKubeletThatDoesNotTell) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  world.Advance(kVerdictPatience);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeEffects(decision), "delete pod mnist-worker-1 within 0 s: replaced\n");
  EXPECT_EQ(DescribeRestarts(decision.status), "node_lost=1");
}

// We left it alone, so somebody else removed it: a drain, before the watch told of it.
TEST(DecideUntoldEnd, PodThatIsRemovedBeforeItsEndIsToldCostsNothing) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  EXPECT_EQ(DescribeRestarts(world.job.status), "ended=1");
  world.Vanish("mnist-worker-1");

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "deleted=1");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
  ASSERT_EQ(decision.metrics.size(), 1U);
  EXPECT_EQ(decision.metrics.front().label, "deleted");
  ASSERT_EQ(EventReasons(decision), "PodEnded");
  EXPECT_EQ(decision.events.front().message,
            "pod mnist-worker-1 was deleted, cause deleted; does not count against "
            "runPolicy.backoffLimit");
}

TEST(DecideUntoldEnd, PodThatIsDrainedBeforeItsEndIsToldIsSaidToBeEvicted) {
  TestWorld world = WorldWithUntoldEnd();
  world.Find("mnist-worker-1")->status.disruption = "EvictionByEvictionAPI";
  world.Step();
  world.Vanish("mnist-worker-1");

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "evicted=1");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
  ASSERT_EQ(EventReasons(decision), "PodEnded");
  EXPECT_EQ(decision.events.front().message.find(
                "pod mnist-worker-1 was evicted (EvictionByEvictionAPI)"),
            0U);
  EXPECT_EQ(decision.status.placement[1].disruption, "") << "its successor is not";
}

TEST(DecideUntoldEnd, PodThatSomebodyAskedToGoIsNoLossThoughNobodyTellsHowItEnded) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  world.Find("mnist-worker-1")->is_deleting = true;
  world.Advance(kVerdictPatience);

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "deleted=1");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
}

TEST(DecideUntoldEnd, PodThatGoesWithANodeThatDoesNotReportIsALoss) {
  TestWorld world = WorldWithUntoldEnd();
  world.Step();
  world.Find("mnist-worker-1")->status.disruption = "DeletionByTaintManager";
  world.Find("mnist-worker-1")->is_deleting = true;
  world.nodes()[0].is_ready = false;
  world.Advance(kVerdictPatience);

  EXPECT_EQ(DescribeRestarts(world.Step().status), "node_lost=1");
}

TEST(DecideUntoldEnd, OneSignAloneIsNotEnough) {
  TestWorld finished = WorldWithUntoldEnd();  // training is over: all leave
  for (auto& [pod, report] : finished.observed.reports) {
    report.document.phase = Phase::kEvaluating;
  }
  EXPECT_EQ(DescribeEffects(finished.Step()), "");

  TestWorld open = WorldWithUntoldEnd();
  open.observed.closed_pods.clear();
  EXPECT_EQ(DescribeEffects(open.Step()), "");

  TestWorld connected = WorldWithUntoldEnd();
  connected.ReportAll();
  EXPECT_EQ(DescribeEffects(connected.Step()), "");
}

// It may have finished as well, and whoever is gone with its word unsaid costs nothing.
TEST(DecideUntoldEnd, OnceARankHasFinishedTheKubeletsWordDecides) {
  TestWorld world = WorldWithUntoldEnd();
  world.Exit("mnist-worker-2", 0);
  EXPECT_EQ(DescribeEffects(world.Step()), "");
  EXPECT_EQ(DescribeRestarts(world.job.status), "");
  world.Vanish("mnist-worker-0");

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "deleted=1");
  EXPECT_EQ(CountedIncidents(decision.status.incidents), 0);
}

TEST(DecideUntoldEnd, WhereNoEndIsForgivenTheKubeletsWordDecides) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].restart_policy = RestartPolicy::kNever;
  TestWorld world = WorldWithUntoldEnd(job);

  EXPECT_EQ(DescribeEffects(world.Step()), "");
  EXPECT_FALSE(HasEnded(world.job.status));
}

// Two ranks on two nodes have ended, of which one node tells.
TEST(DecideUntoldEnd, VerdictNamesTheIncidentThatItIsAbout) {
  TrainingJob job = MakeTrainingJob(3);
  TestWorld world(std::move(job));
  world.AddNode("node-b");
  world.observed.round =
      Plan{{{"worker-0", "node-a"}, {"worker-1", "node-a"}, {"worker-2", "node-b"}}};
  world.Launch();
  world.ReportAll();
  world.observed.closed_pods = {"mnist-worker-1", "mnist-worker-2"};
  StatusDocument& document = world.observed.reports["mnist-worker-0"].document;
  document.phase = Phase::kRendezvous;
  for (PeerStatus& peer : document.peers) {
    peer.state = PeerState::kLost;
  }
  world.Step();
  ASSERT_EQ(DescribeRestarts(world.job.status), "ended=2");
  ASSERT_EQ(CountedIncidents(world.job.status.incidents), 2);
  world.Exit("mnist-worker-1", 137, "OOMKilled");

  const Decision first = world.Step();
  EXPECT_EQ(DescribeRestarts(first.status), "ended=1 oom=1");
  EXPECT_EQ(first.status.incidents.at(0).cause, "oom");
  EXPECT_EQ(first.status.incidents.at(1).cause, "ended");
  world.Vanish("mnist-worker-2");  // it was asked to go, which is free

  const Decision second = world.Step();
  EXPECT_EQ(DescribeRestarts(second.status), "deleted=1 oom=1");
  EXPECT_EQ(CountedIncidents(second.status.incidents), 1);
}

// What becomes of the successor is no word on how its predecessor ended.
TEST(DecideUntoldEnd, SuccessorThatIsTriedElsewhereTellsNothingOfTheEnd) {
  TestWorld world = WorldWithUntoldEnd();
  world.AddNode("node-b");
  world.Step();
  world.Find("mnist-worker-1-r1")->status.phase = kube::PodPhase::kFailed;
  world.Find("mnist-worker-1-r1")->status.reason = "OutOfcpu";
  world.Step();
  ASSERT_EQ(world.job.status.placement.at(1).incarnation, Incarnation(2));

  const Decision decision = world.Step();

  EXPECT_EQ(DescribeRestarts(decision.status), "node_lost=1 not_started=1");
  EXPECT_EQ(EventReasons(decision), "");
}

}  // namespace
}  // namespace lockstep::control
