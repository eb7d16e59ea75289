#include "operator/reconcile/failure/judged_hang.h"

#include <chrono>
#include <utility>

#include <gtest/gtest.h>

#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

// Two pods of two ranks each, of which the last one does not come.
class JudgedHangTest : public testing::Test {
 protected:
  JudgedHangTest() : world_(Job()) { Begin(); }

  void Begin() {
    world_.Launch();
    world_.Advance(std::chrono::hours(1));
    world_.ReportAll();
    EvidenceOf("mnist-worker-0") = {Rank(0, 7, 7), Rank(1, 7, 7)};
    EvidenceOf("mnist-worker-1") = {Rank(2, 7, 7), Rank(3, 6, 0)};
  }

  static TrainingJob Job() {
    TrainingJob job = MakeCommandJob(2);
    job.spec.roles[0].processes = 2;
    return job;
  }

  static RankEvidence Rank(int rank, int64_t called, int64_t waits_in) {
    return {rank, false, false, "", {{"0", "group pg", called, waits_in, "all_reduce"}}};
  }

  std::vector<RankEvidence>& EvidenceOf(const std::string& pod) {
    return world_.observed.reports[pod].document.hang_evidence;
  }

  std::string RestartsAfterStep() {
    world_.Step();
    return DescribeRestarts(world_.job.status);
  }

  TestWorld world_;
};

TEST_F(JudgedHangTest, TheGangRestartsForTheRankThatOthersWaitForInAnyPod) {
  EXPECT_EQ(RestartsAfterStep(), "hang=1");
  ASSERT_TRUE(world_.job.status.last_failure.has_value());
  EXPECT_EQ(world_.job.status.last_failure->pod, "mnist-worker-1");
  EXPECT_EQ(world_.job.status.last_failure->message,
            "pod mnist-worker-1 hangs: rank 3 has not called all_reduce #7 of group pg, "
            "in which 3 ranks wait");
}

// Two torchruns of two workers each: to the job each pod is one rank.
TEST_F(JudgedHangTest, RanksOfALauncherAreThoseOfThePodThatTellsOfThem) {
  for (const int hung : {1, 3}) {
    TrainingJob job = Job();
    job.spec.roles[0].processes = 1;
    world_ = TestWorld(job);
    Begin();
    EvidenceOf(hung == 1 ? "mnist-worker-0" : "mnist-worker-1")[1] = Rank(hung, 6, 0);
    EvidenceOf(hung == 1 ? "mnist-worker-1" : "mnist-worker-0")[1] = Rank(4 - hung, 7, 7);
    EXPECT_EQ(RestartsAfterStep(), "hang=1");
    ASSERT_TRUE(world_.job.status.last_failure.has_value());
    EXPECT_EQ(world_.job.status.last_failure->pod, hung == 1 ? "mnist-worker-0" : "mnist-worker-1");
  }
}

// Each pod trains for itself, as under torchrun --standalone.
TEST_F(JudgedHangTest, NobodyIsNamedWhereTwoPodsTellOfOneRank) {
  EvidenceOf("mnist-worker-1") = {Rank(0, 9, 9), Rank(1, 6, 0)};
  EXPECT_EQ(RestartsAfterStep(), "");
}

TEST_F(JudgedHangTest, NobodyIsNamedWhileOneOfTheRanksMoves) {
  EvidenceOf("mnist-worker-0")[1].is_moving = true;
  EXPECT_EQ(RestartsAfterStep(), "");
}

TEST_F(JudgedHangTest, NobodyIsNamedByWhatIsNotKnownOfTheOthers) {
  EvidenceOf("mnist-worker-1").clear();
  EXPECT_EQ(RestartsAfterStep(), "");
}

// Programs that are asked to end for a relaunch stand where they stood.
TEST_F(JudgedHangTest, NobodyIsNamedWhileProgramsAreRelaunched) {
  TrainingJob job = Job();
  job.spec.recovery.relaunch = true;
  world_ = TestWorld(job);
  Begin();
  const auto evidence = std::exchange(EvidenceOf("mnist-worker-1"), {});
  for (auto& [pod, report] : world_.observed.reports) {
    report.document.relaunches = 0;
  }
  world_.observed.reports["mnist-worker-0"].document.held = HeldEnd{137, 9, 0, ""};
  EXPECT_EQ(RestartsAfterStep(), "killed=1");
  ASSERT_TRUE(world_.job.status.relaunch.since.has_value());
  world_.observed.reports["mnist-worker-0"].document.held.reset();
  EvidenceOf("mnist-worker-1") = evidence;
  EXPECT_EQ(RestartsAfterStep(), "killed=1");
}

TEST_F(JudgedHangTest, WhatWasToldLongAgoSaysNothing) {
  world_.observed.reports["mnist-worker-1"].age = seconds(6);
  EXPECT_EQ(RestartsAfterStep(), "");
}

}  // namespace
}  // namespace lockstep::control
