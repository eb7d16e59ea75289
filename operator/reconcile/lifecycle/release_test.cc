#include "operator/reconcile/lifecycle/release.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "operator/api/job/kueue_admission.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/capacity/kueue_workload.h"
#include "operator/reconcile/testing/fake_asking_world.h"

namespace lockstep::control {
namespace {

class ReleaseJobTest : public ::testing::Test, protected FakeAskingWorld {
 protected:
  void Delete() {
    world_.observed.is_job_deleting = true;
    ++world_.job.metadata.generation;  // as a server does
  }
};

// `kubectl delete tj mnist`, while a finalizer of somebody else's keeps the job.
TEST_F(ReleaseJobTest, WhatAWaitingJobHasAskedForIsTakenBackAndItSaysThatItWaitsNoMore) {
  Ask();
  ASSERT_NE(Objects(), "");
  world_.job.status.queue = QueuePosition{"default", 1, std::nullopt};
  world_.job.status.claim = RoomClaim();
  Delete();
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_FALSE(ask().open.has_value());
  EXPECT_FALSE(world_.job.status.queue.has_value());
  EXPECT_FALSE(world_.job.status.claim.has_value());
  EXPECT_EQ(Why(), "the job is being deleted and no longer waits");
  EXPECT_EQ(Step(), "");
}

TEST_F(ReleaseJobTest, WhatIsMadeLateGoesToo) {
  const std::vector<WriteObject> late = WritesOf(world_.Step());
  ASSERT_EQ(late.size(), 1U);
  Delete();
  EXPECT_EQ(Step(), "");
  Carry(late[0]);
  EXPECT_EQ(Step(), "delete podtemplates/mnist-uid-1-1-worker");
}

TEST_F(ReleaseJobTest, ShareOfKueuesThatNoPodUsesIsGivenBack) {
  Begin(MakeCommandJob(2));
  world_.job.metadata.labels[kKueueQueueLabel] = "team-a";
  KueueSight& kueue = world_.observed.kueue;
  kueue.is_followed = true;
  kueue.workload.emplace();
  kueue.workload->uid = "workload-1";
  kueue.workload->is_ours = true;
  kueue.workload->revision = WorkloadRevision(world_.job);
  world_.Step();
  Delete();
  const std::vector<WriteObject> writes = WritesOf(world_.Step());
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_EQ(DescribeEffect(writes[0]), "delete workloads/trainingjob-mnist-uid-1");
}

TEST_F(ReleaseJobTest, PodsOfAGangAreLeftToWhoeverDeletesTheJob) {
  Begin(MakeCommandJob(2));
  world_.AddNode("node-a");
  world_.Launch();
  const TrainingJobStatus before = world_.job.status;
  Delete();
  world_.observed.job_finalizers = {"example.com/keep"};
  const std::string words =
      "the job is being deleted: its pods continue to run until the job's finalizers "
      "example.com/keep are removed, and are then deleted; lost pods are not replaced";
  const Decision told = world_.Step();
  EXPECT_EQ(DescribeEffects(told), "");
  ASSERT_EQ(told.events.size(), 1U);
  EXPECT_EQ(told.events[0], (Event{EventType::kWarning, "JobDeleted", words}));
  EXPECT_EQ(DeriveStatus(world_.job).state, "Running");
  EXPECT_EQ(DeriveStatus(world_.job).reason, words);

  world_.Vanish("mnist-worker-1");
  const Decision later = world_.Step();
  EXPECT_EQ(DescribeEffects(later), "");
  EXPECT_TRUE(later.events.empty());
  EXPECT_EQ(world_.job.status.placement, before.placement);
}

// `kubectl delete --cascade=foreground`.
TEST_F(ReleaseJobTest, PodsThatGoBeforeTheJobAreNotSaidToRunOn) {
  Begin(MakeCommandJob(2));
  world_.AddNode("node-a");
  world_.Launch();
  Delete();
  world_.observed.job_finalizers = {"foregroundDeletion", "example.com/keep"};
  world_.Step();
  EXPECT_EQ(Why(),
            "the job is being deleted: first its pods, then the job; lost pods are not replaced");
}

// `kubectl delete --cascade=orphan`.
TEST_F(ReleaseJobTest, PodsThatAreLeftWithoutAnOwnerAreNotSaidToEnd) {
  Begin(MakeCommandJob(2));
  world_.AddNode("node-a");
  world_.Launch();
  Delete();
  world_.observed.job_finalizers = {"orphan", "example.com/keep"};
  world_.Step();
  const std::string words =
      "the job is being deleted without its pods (--cascade=orphan): the pods continue to run and "
      "keep their resources until somebody deletes them; lost pods are not replaced";
  EXPECT_EQ(Why(), words);
  world_.observed.job_finalizers = {"example.com/keep"};
  world_.Step();
  EXPECT_EQ(Why(), words) << "they have no owner any more";
}

TEST_F(ReleaseJobTest, EndOfAJobStaysAsItWasTold) {
  Begin(MakeCommandJob(2));
  SetCondition(&world_.job.status, {ConditionType::kFailed, true, "A", "b"}, world_.now);
  const TrainingJobStatus before = world_.job.status;
  Delete();
  EXPECT_EQ(DescribeEffects(world_.Step()), "");
  EXPECT_EQ(world_.job.status, before);
}

}  // namespace
}  // namespace lockstep::control
