#include "operator/view/jobs/job_usage.h"

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "operator/reconcile/testing/fake_world.h"
#include "operator/view/jobs/stand_of_job.h"
#include "operator/view/pods/going_pods.h"

namespace lockstep::control {
namespace {

// A gang of two on node-a, of which one pod is there.
class JobUsageTest : public testing::Test {
 protected:
  JobUsageTest() {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.roles[0].gpus = 1;
    TestWorld world(std::move(job));
    world.Launch();
    auto stored = std::make_shared<StoredJob>();
    stored->job = world.job;
    job_.key = {"default", "mnist"};
    job_.uid = world.job.metadata.uid;
    job_.object = stored;
    pod_.object = std::make_shared<const kube::Pod>(*world.Find("mnist-worker-0"));
    pod_.key = {"default", pod_.object->name};
    next_ = world.job.status;
  }

  // "own/going", in pods.
  std::string Count(const TrainingJobStatus* reserved) {
    JobUsage usage = UsageOf(&job_, reserved, {&pod_});
    return std::to_string(usage.own["node-a"].pod_count) + "/" +
           std::to_string(usage.going["node-a"].pod_count);
  }

  kube::Item<StoredJob> job_;
  kube::Item<kube::Pod> pod_;
  TrainingJobStatus next_;
};

TEST_F(JobUsageTest, PlacesAreHeldForPodsThatAreStillToCome) {
  EXPECT_EQ(Count(nullptr), "2/0");
  EXPECT_EQ(Count(&next_), "2/0");
}

// Else a queue is charged twice for a rank that is replaced, and others take back what is its own.
TEST_F(JobUsageTest, PlaceOfAPredecessorComesFree) {
  for (PodPlacement& placement : next_.placement) {
    placement.incarnation = placement.incarnation.Next();
  }
  EXPECT_EQ(Count(&next_), "4/2") << "of one there is a pod, of the other only the place";
  next_.attempt = next_.attempt.Next();
  EXPECT_EQ(Count(&next_), "4/0") << "another gang: both are held until that is written";
}

// Else its queue has room for others meanwhile, and is over its quota once it has a place.
TEST_F(JobUsageTest, OneThatWaitsForAPlaceIsChargedForOnNoNode) {
  auto stored = std::make_shared<StoredJob>(*job_.object);
  PodPlacement& waiting = stored->job.status.placement.back();
  waiting.incarnation = waiting.incarnation.Next();
  waiting.node.clear();
  next_ = stored->job.status;
  job_.object = stored;
  UsageByNode own = UsageOf(&job_, nullptr, {&pod_}).own;
  EXPECT_EQ(own.size(), 2U);
  EXPECT_EQ(own["node-a"].pod_count, 1);
  EXPECT_EQ(own[""].pod_count, 1);
  next_.placement.back().node = "node-b";
  own = UsageOf(&job_, &next_, {&pod_}).own;
  EXPECT_EQ(own.count(""), 0U) << "charged twice while its place is written";
  EXPECT_EQ(own["node-b"].pod_count, 1);
}

// Else one edit that nobody can read gives away the places of those that have ended.
TEST_F(JobUsageTest, PlacesAreHeldWhateverTheManifestSaysLater) {
  const UsageByNode before = UsageOf(&job_, nullptr, {}).own;
  EXPECT_EQ(before.at("node-a").resources.gpu_count, 2);
  auto stored = std::make_shared<StoredJob>(*job_.object);
  stored->job.spec = TrainingJobSpec();
  job_.object = stored;
  EXPECT_EQ(UsageOf(&job_, nullptr, {}).own, before);
}

TEST_F(JobUsageTest, PredecessorThatHasNotGoneYetIsOnItsWay) {
  auto stored = std::make_shared<StoredJob>(*job_.object);
  stored->job.status.placement.front().incarnation = Incarnation(1);
  job_.object = stored;
  EXPECT_EQ(Count(nullptr), "3/1");
}

// One that is stuck on its node must not hold up what others leave.
TEST(JobStand, OnlyPodsThatAreOverdueStay) {
  const WallTime overdue{std::chrono::seconds(40)};
  JobUsage usage;
  AddPod("node-a", {}, &usage.going);
  AddPod("node-b", {}, &usage.going);
  AddPod("node-b", {}, &usage.stuck_from[overdue]);
  const auto stand = [&](WallTime now) {
    return StandOf({"default", "mnist"}, {nullptr, nullptr, &usage, {}}, now);
  };
  const JobStand before = stand(overdue - std::chrono::seconds(1));
  EXPECT_EQ(before.going.size(), 2U);
  EXPECT_TRUE(before.stuck.empty());
  EXPECT_EQ(before.stuck_from, overdue);
  const JobStand after = stand(overdue);
  EXPECT_EQ(after.going.size(), 1U);
  EXPECT_EQ(after.going.count("node-a"), 1U);
  EXPECT_EQ(after.stuck.count("node-b"), 1U);
  EXPECT_FALSE(after.stuck_from.has_value());
}

TEST(JobStand, PodsThatAreNeverAskedToGoStay) {
  const WallTime since{std::chrono::seconds(40)};
  const std::map<std::string, WallTime> unasked_since = {{"u1", since}};
  JobUsage usage;
  AddPod("node-a", {}, &usage.orphans);
  AddPod("node-a", {}, &usage.unasked["u1"]);
  const auto stand = [&](WallTime now) {
    return StandOf({"default", "mnist"}, {nullptr, nullptr, &usage, {}, &unasked_since}, now);
  };
  EXPECT_EQ(stand(since).going.count("node-a"), 1U);
  EXPECT_EQ(stand(since).stuck_from, since + kUnaskedAfter);
  const JobStand after = stand(since + kUnaskedAfter);
  EXPECT_EQ(after.going.count("node-a"), 0U);
  EXPECT_EQ(after.stuck.count("node-a"), 1U);
}

}  // namespace
}  // namespace lockstep::control
