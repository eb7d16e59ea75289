#include "operator/view/pods/poll_plan.h"

#include <deque>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

class PollPlanTest : public testing::Test {
 protected:
  PollPlanTest() : job_(MakeTrainingJob(4)) {
    for (int i = 0; i < 4; ++i) {
      PodPlacement placement;
      placement.index = i;
      job_.status.placement.push_back(placement);
      kube::Pod pod;
      pod.name = "mnist-worker-" + std::to_string(i);
      pod.labels =
          EncodePodLabels({"mnist", job_.metadata.uid, {Role::kWorker, i}, i, PodNumber{}});
      pod.owner_uid = job_.metadata.uid;
      pod.status.phase = kube::PodPhase::kRunning;
      pod.status.pod_ip = "10.0.0." + std::to_string(i);
      pods_.push_back(pod);
    }
  }

  std::vector<PollTarget> Plan() const {
    std::vector<const kube::Pod*> pods;
    for (const kube::Pod& pod : pods_) {
      pods.push_back(&pod);
    }
    return PollPlan(job_, pods, known_);
  }

  // The pods that are asked, in order.
  std::string Asked() const {
    std::string names;
    for (const PollTarget& target : Plan()) {
      names += target.pod.substr(target.pod.size() - 1);
    }
    return names;
  }

  void SetRunning() {
    SetCondition(&job_.status, {ConditionType::kRunning, true, "GangRunning", ""}, WallTime{});
  }

  TrainingJob job_;
  std::deque<kube::Pod> pods_;
  PollKnowledge known_;
};

TEST_F(PollPlanTest, TwoLowestRanksThatRunSpeakForAll) {
  EXPECT_EQ(Asked(), "01");
  pods_[0].status.phase = kube::PodPhase::kFailed;
  EXPECT_EQ(Asked(), "12");
  pods_[1].status.pod_ip.clear();
  EXPECT_EQ(Asked(), "23");
}

TEST_F(PollPlanTest, OneThatHasToldNothingYetIsAskedLessOften) {
  const StatusDocument document;
  known_.documents["mnist-worker-1"] = &document;
  const std::vector<PollTarget> targets = Plan();
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_GT(targets[0].interval, targets[1].interval);
}

TEST_F(PollPlanTest, AccusationMakesAllBeAsked) {
  StatusDocument document;
  document.peers = {{3, Incarnation(0), PeerState::kConnected, "", 0}};
  known_.documents["mnist-worker-0"] = &document;
  EXPECT_EQ(Asked(), "01");

  document.peers.front().state = PeerState::kSilent;
  EXPECT_EQ(Asked(), "0123");
}

TEST_F(PollPlanTest, PeerThatIsMissedForLongMakesAllBeAsked) {
  StatusDocument document;
  document.peers = {{3, Incarnation(0), PeerState::kMissing, "", 4.9}};
  known_.documents["mnist-worker-0"] = &document;
  EXPECT_EQ(Asked(), "01");

  document.peers.front().silent_seconds = 5;
  EXPECT_EQ(Asked(), "0123");
}

TEST_F(PollPlanTest, RankThatNoLongerListensMakesAllBeAsked) {
  known_.closed = {"mnist-worker-0"};
  EXPECT_EQ(Asked(), "01");  // it is not up yet

  const StatusDocument document;
  known_.documents["mnist-worker-0"] = &document;
  EXPECT_EQ(Asked(), "0123");
}

TEST_F(PollPlanTest, RanksOfAGangThatRunsAreAskedUntilTheirDevicesAreKnown) {
  job_.spec.roles.front().gpus = 1;
  EXPECT_EQ(Asked(), "01") << "it comes up";

  SetRunning();
  EXPECT_EQ(Asked(), "0123");

  job_.status.placement[2].devices = {"GPU-1"};
  EXPECT_EQ(Asked(), "013");
}

// What production writes: the status that is decided from the reports of a running gang.
TEST_F(PollPlanTest, GangWhoseReportsWereDecidedOnIsLeftToItsSpeakers) {
  TrainingJob job = MakeTrainingJob(4);
  job.spec.roles.front().gpus = 1;
  TestWorld world(job);
  world.Launch();
  world.ReportAll();
  const auto asked = [&] {
    std::vector<const kube::Pod*> pods;
    for (kube::Pod& pod : world.observed.pods) {
      pod.status.pod_ip = "10.0.0.1";
      pods.push_back(&pod);
    }
    return PollPlan(world.job, pods, known_).size();
  };
  EXPECT_EQ(asked(), 4U);
  for (auto& [pod, report] : world.observed.reports) {
    report.document.devices = {{"GPU-of-" + pod, "", {0}}};
  }
  world.Step();
  EXPECT_EQ(asked(), 2U);
}

TEST_F(PollPlanTest, RuntimeThatWorksAndShowsNoDeviceIsNotAskedForEver) {
  job_.spec.roles.front().gpus = 1;
  SetRunning();
  StatusDocument document;
  document.phase = Phase::kStarting;
  known_.documents["mnist-worker-3"] = &document;
  EXPECT_EQ(Asked(), "0123");
  document.phase = Phase::kTraining;
  EXPECT_EQ(Asked(), "012");
}

// Each pod tells of its own programs only, and would not wait for somebody who never asks.
TEST_F(PollPlanTest, EveryRankIsAskedWhereProgramsMayStartAnewInTheirPods) {
  job_.spec.training.reset();
  job_.spec.recovery.relaunch = true;
  EXPECT_EQ(Asked(), "0123");
  const Duration calm = Plan()[3].interval;
  StatusDocument document;
  known_.documents["mnist-worker-2"] = &document;
  EXPECT_EQ(Plan()[3].interval, calm);
  document.held.emplace();
  EXPECT_LT(Plan()[3].interval, calm);
  known_.documents.clear();
  job_.status.relaunch.since = WallTime{};
  EXPECT_LT(Plan()[3].interval, calm);
  job_.spec.strategy = Strategy::kHorovod;
  job_.status.relaunch.since.reset();
  EXPECT_EQ(Asked(), "01");
}

// Each pod knows where its own ranks stand.
TEST_F(PollPlanTest, EveryRankIsAskedWhileOnePodSaysWhereItsRanksHang) {
  job_.spec.training.reset();
  EXPECT_EQ(Asked(), "01");
  StatusDocument document;
  document.hang_evidence.emplace_back();
  known_.documents["mnist-worker-1"] = &document;
  EXPECT_EQ(Asked(), "0123");
}

// None of them knows of another's model, and none accuses one that is lost.
TEST_F(PollPlanTest, EveryRankIsAskedNowAndThenWhereEachTrainsAModel) {
  job_.spec.strategy = Strategy::kIndependent;
  EXPECT_EQ(Asked(), "0123");
  StatusDocument document;
  known_.documents["mnist-worker-1"] = &document;
  EXPECT_GT(Plan()[3].interval, Plan()[1].interval) << "at a cost that is bounded";
  document.peers = {{3, Incarnation(0), PeerState::kSilent, "", 0}};
  EXPECT_EQ(Plan()[3].interval, Plan()[0].interval) << "in alarm as any other";
  document.peers.clear();
  job_.spec.training.reset();
  EXPECT_EQ(Asked(), "01") << "a command has no steps that are its ranks' own";
}

TEST_F(PollPlanTest, OlderPodsAndEndedJobsAreLeftAlone) {
  job_.status.placement[0].incarnation = Incarnation(1);
  EXPECT_EQ(Asked(), "12");

  SetCondition(&job_.status, {ConditionType::kSucceeded, true, "Done", ""}, WallTime{});
  EXPECT_EQ(Asked(), "");
}

}  // namespace
}  // namespace lockstep::control
