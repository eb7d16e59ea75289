#include "operator/reconcile/recovery/successor.h"

#include <memory>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// Two workers on node-a and node-b of one rack; node-b is lost. node-c is free, in a rack of the
// same name in another block, and so is node-d beside node-a.
class SuccessorTest : public testing::Test {
 protected:
  SuccessorTest() {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.roles[0].gpus = 1;
    world_ = std::make_unique<TestWorld>(job);
    world_->observed.topology_levels = {"block", "rack"};
    for (const std::string name : {"node-b", "node-c", "node-d"}) {
      world_->AddNode(name);
    }
    for (kube::Node& node : world_->nodes()) {
      node.allocatable.gpu_count = 1;
      node.labels = {{"block", node.name == "node-c" ? "b2" : "b1"}, {"rack", "r1"}};
    }
    world_->observed.round = Plan{{{"worker-0", "node-a"}, {"worker-1", "node-b"}}};
  }

  // Where the successor of the lost worker goes.
  std::string NodeAfterLoss() {
    world_->Launch();
    std::vector<kube::Node>& nodes = world_->nodes();
    std::erase_if(nodes, [](const kube::Node& node) { return node.name == "node-b"; });
    world_->Vanish("mnist-worker-1");
    world_->Step();
    return world_->job.status.placement.at(1).node;
  }

  // What Restarting says: reason and message.
  std::string Restarting() const {
    const Condition* const restarting =
        FindCondition(world_->job.status, ConditionType::kRestarting);
    return restarting == nullptr ? "" : restarting->reason + ": " + restarting->message;
  }

  std::unique_ptr<TestWorld> world_;
};

TEST_F(SuccessorTest, GoesAnywhereWhereNoLevelIsRequired) {
  EXPECT_EQ(NodeAfterLoss(), "node-c");
}

TEST_F(SuccessorTest, StaysInTheDomainOfThoseThatStay) {
  world_->job.spec.scheduling.topology.required = "rack";
  EXPECT_EQ(NodeAfterLoss(), "node-d");
}

TEST_F(SuccessorTest, WaitsWhereTheDomainHasNoRoom) {
  world_->job.spec.scheduling.topology.required = "rack";
  world_->observed.used_elsewhere.by_jobs.Edit()["node-d"].resources.gpu_count = 1;
  EXPECT_EQ(NodeAfterLoss(), "");
}

TEST_F(SuccessorTest, NodeThatHasLostItsLabelsDoesNotHideTheDomain) {
  world_->job.spec.scheduling.topology.required = "rack";
  world_->Launch();
  world_->nodes().front().labels.erase("rack");
  world_->Exit("mnist-worker-1", 137);
  world_->Step();
  EXPECT_EQ(world_->job.status.placement.at(1).node, "node-b");
}

TEST_F(SuccessorTest, WhereNoNodeTellsTheDomainThatIsSaid) {
  world_->job.spec.scheduling.topology.required = "rack";
  world_->nodes().front().labels.erase("rack");
  EXPECT_EQ(NodeAfterLoss(), "");
  EXPECT_EQ(
      Restarting(),
      "ReplacementWaits: pod mnist-worker-1-r1 (rank 1) cannot be placed: no known node is in "
      "the same rack as the gang; the other ranks wait for it");
}

TEST_F(SuccessorTest, WhatIsMissingForItsPlaceIsSaidAtOnce) {
  world_->job.spec.scheduling.topology.required = "rack";
  world_->observed.used_elsewhere.by_jobs.Edit()["node-d"].resources.gpu_count = 1;
  EXPECT_EQ(NodeAfterLoss(), "");
  EXPECT_EQ(
      Restarting(),
      "ReplacementWaits: pod mnist-worker-1-r1 (rank 1) cannot be placed: needs 1 GPU, 0 free on "
      "2 nodes; the other ranks wait for it");
  world_->observed.used_elsewhere.by_jobs.Edit().clear();
  world_->Step();
  EXPECT_EQ(Restarting(), "ReplacementPlaced: the replacements were placed");
}

// Of one that the API server refuses and one without room Restarting names one, always the same:
// else each turn would write the status and say both again.
TEST_F(SuccessorTest, RefusedReplacementBesideOneWithoutRoomIsToldOfOnce) {
  TrainingJob job = MakeTrainingJob(3);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  for (const std::string name : {"node-b", "node-c"}) {
    world.AddNode(name);
  }
  for (kube::Node& node : world.nodes()) {
    node.allocatable.gpu_count = 1;
  }
  world.observed.round =
      Plan{{{"worker-0", "node-a"}, {"worker-1", "node-b"}, {"worker-2", "node-c"}}};
  world.Launch();
  world.ReportAll();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.Vanish("mnist-worker-1-r1");
  world.observed.refused_pods["mnist-worker-1-r1"] = {.message = "exceeded quota: team",
                                                      .at = world.now};
  world.nodes()[2].is_schedulable = false;
  world.Exit("mnist-worker-2", 137);
  world.Step();
  ASSERT_EQ(world.job.status.placement.at(2).node, "");
  world.Step();
  EXPECT_EQ(ReasonOf(world.job.status, ConditionType::kRestarting), "ReplacementRefused");

  EXPECT_EQ(EventReasons(world.Step()), "");
}

// A pod a node.
TEST_F(SuccessorTest, StandsApartFromThoseThatStay) {
  world_->job.spec.roles[0].pod.pod_terms = {{"", /*is_anti=*/true, {}, "kubernetes.io/hostname"}};
  world_->nodes().front().allocatable.gpu_count = 8;
  for (const std::string name : {"node-c", "node-d"}) {
    world_->observed.used_elsewhere.by_jobs.Edit()[name].resources.gpu_count = 1;
  }
  EXPECT_EQ(NodeAfterLoss(), "") << "node-a has room, and a pod of the gang";
  EXPECT_NE(Restarting().find("needs 1 GPU, 0 free on 2 nodes"), std::string::npos) << Restarting();
  world_->observed.used_elsewhere.by_jobs.Edit().clear();
  world_->Step();
  EXPECT_EQ(world_->job.status.placement.at(1).node, "node-c");
}

TEST_F(SuccessorTest, WhereEveryDomainHasAPodOfTheGangThatIsSaid) {
  world_->job.spec.roles[0].pod.pod_terms = {{"", /*is_anti=*/true, {}, "rack"}};
  for (kube::Node& node : world_->nodes()) {
    node.labels["block"] = "b1";
  }
  EXPECT_EQ(NodeAfterLoss(), "");
  EXPECT_NE(Restarting().find("every known rack already has another pod of the gang"),
            std::string::npos)
      << Restarting();
}

TEST_F(SuccessorTest, LeavesRoomThatIsKeptForAnotherJobsGang) {
  world_->observed.used_elsewhere.kept["node-c"] = {{0, 0, 1}, 1};
  EXPECT_EQ(NodeAfterLoss(), "node-d");
}

TEST_F(SuccessorTest, WaitsUntilNothingIsKeptAnyMore) {
  for (const std::string name : {"node-c", "node-d"}) {
    world_->observed.used_elsewhere.kept[name] = {{0, 0, 1}, 1};
  }
  EXPECT_EQ(NodeAfterLoss(), "");
  world_->Step();
  EXPECT_EQ(world_->job.status.placement.at(1).node, "");
  world_->observed.used_elsewhere.kept.clear();
  world_->Step();
  EXPECT_EQ(world_->job.status.placement.at(1).node, "node-c");
}

// Who goes for the other gang is on its node still, so what is kept there seems to leave no room.
TEST_F(SuccessorTest, StaysWhereItWasBesideWhatIsKept) {
  world_->Launch();
  world_->observed.used_elsewhere.kept["node-b"] = {{0, 0, 1}, 1};
  world_->Exit("mnist-worker-1", 134);
  world_->Step();
  EXPECT_EQ(world_->job.status.placement.at(1).node, "node-b");
}

// Two workers of a GPU each, on node-a and node-b; node-a is cordoned, and nothing else is free.
TestWorld WorldWithoutRoom() {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.roles[0].gpus = 1;
  TestWorld world(job);
  world.AddNode("node-b");
  for (kube::Node& node : world.nodes()) {
    node.allocatable.gpu_count = 1;
  }
  world.observed.round = Plan{{{"worker-0", "node-a"}, {"worker-1", "node-b"}}};
  world.Launch();
  world.ReportAll();
  world.nodes()[0].is_schedulable = false;
  return world;
}

TEST(Successors, PlaceOfOneThatMayStayIsNotGivenToOneThatHasToMove) {
  TestWorld world = WorldWithoutRoom();
  world.Exit("mnist-worker-0", 134);
  world.Exit("mnist-worker-1", 134);

  const Decision decision = world.Step();

  EXPECT_EQ(world.job.status.placement.at(0).node, "");
  EXPECT_EQ(world.job.status.placement.at(1).node, "node-b");
  EXPECT_EQ(EventReasons(decision), "PodReplaced PodReplaced ReplacementWaits");
  ASSERT_TRUE(decision.next_wakeup.has_value()) << "nobody looks again soon";
  EXPECT_LE(*decision.next_wakeup, world.now + std::chrono::seconds(1));
}

// Without room elsewhere it goes back to the node that is at fault, and nobody else goes there.
TEST(Successors, PlaceWhereTheOldProcessMayStillRunIsNotGivenToAnother) {
  TestWorld world = WorldWithoutRoom();
  world.Exit("mnist-worker-0", 134);
  kube::Pod* const stuck = world.Find("mnist-worker-1");
  stuck->is_deleting = true;
  stuck->deletion_due = world.now - kOverdueAfter;

  world.Step();

  EXPECT_EQ(world.job.status.placement.at(0).node, "");
  EXPECT_EQ(world.job.status.placement.at(1).node, "node-b");
}

}  // namespace
}  // namespace lockstep::control
