#include "operator/reconcile/gang/queue.h"

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TEST(Queue, OnlyAJobThatMissesNothingButRoomStandsInIt) {
  TestWorld world(MakeTrainingJob(1));
  EXPECT_TRUE(WaitsForRoom(world.job, world.now));
  world.job.spec.run_policy.suspend = true;
  EXPECT_FALSE(WaitsForRoom(world.job, world.now));
  world.job.spec.run_policy.suspend = false;
  world.job.spec.run_policy.managed_by = "kueue.x-k8s.io/multikueue";
  EXPECT_FALSE(WaitsForRoom(world.job, world.now));
  world.job.spec.run_policy.managed_by = "lockstep.dev/operator";
  world.Step();
  EXPECT_FALSE(WaitsForRoom(world.job, world.now));
}

TEST(Queue, JobThatPausesAfterARollbackHasLeftItUntilItsTimeHasCome) {
  TestWorld world(MakeTrainingJob(1));
  world.job.status.rollbacks = 1;
  world.job.status.retry_at = world.now + std::chrono::seconds(5);
  EXPECT_FALSE(WaitsForRoom(world.job, world.now));
  EXPECT_TRUE(WaitsForRoom(world.job, world.now + std::chrono::seconds(5)));
}

// Nobody knows when a finalizer lets them go.
TEST(Queue, JobThatWaitsForPodsOfAnEarlierOneHoldsUpNobody) {
  TestWorld earlier(MakeTrainingJob(1));
  earlier.Launch();
  TestWorld world(MakeTrainingJob(1));
  kube::Pod left = earlier.observed.pods.back();
  left.owner_uid = "uid-0";
  world.observed.pods = {left};
  world.Step();
  EXPECT_FALSE(WaitsForRoom(world.job, world.now));

  world.observed.pods.clear();
  world.Step();
  EXPECT_FALSE(world.job.status.placement.empty());
}

TEST(Queue, JobThatHasEndedHasLeftIt) {
  TrainingJob job = MakeTrainingJob(1);
  SetCondition(&job.status, {ConditionType::kFailed, true, "Any", "any"}, WallTime{});

  EXPECT_FALSE(WaitsForRoom(job, WallTime{}));
}

}  // namespace
}  // namespace lockstep::control
