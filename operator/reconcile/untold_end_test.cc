#include <string>

#include <gtest/gtest.h>

#include "common/contract/termination_message.h"
#include "operator/api/conditions.h"
#include "operator/reconcile/act/late_verdict.h"
#include "operator/reconcile/policy/budget.h"
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
            "pod mnist-worker-1 was deleted, cause deleted; costs nothing of "
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

}  // namespace
}  // namespace lockstep::control
