#include "operator/view/jobs/stand_of_job.h"

#include <gtest/gtest.h>

#include "operator/allocator/allocator.h"
#include "operator/capacity/capacity_answer.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kNow = WallTime(std::chrono::hours(1000));

// A job of one worker that waits and asks autoscalers for room.
class AskingStand : public testing::Test {
 protected:
  AskingStand() {
    stored_.job = MakeCommandJob(1);
    stored_.job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  }

  JobStand Stand(WallTime now = kNow) {
    StandInputs inputs;
    inputs.stored = &stored_;
    return StandOf({"default", "mnist"}, inputs, now);
  }

  Asking Now(WallTime now = kNow) { return Stand(now).request.asking; }

  CapacityAsk& ask() {
    std::optional<CapacityAsk>& ask = stored_.job.status.provisioning;
    return ask.has_value() ? *ask : ask.emplace();
  }

  StoredJob stored_;
};

TEST_F(AskingStand, RoundsAreToldHowFarTheAskIs) {
  EXPECT_EQ(Now(), Asking{AskStage::kNext});
  ask().open = OpenAsk{ProvisioningClass::kAtomicScaleUp, "rev", kNow, false};
  EXPECT_EQ(Now(), Asking{AskStage::kOpen});
  ask().open->answered_at = kNow;
  EXPECT_EQ(Now(), Asking{AskStage::kOpen}) << "to be taken up is not to be told of nodes";
  ask().open->has_capacity = true;
  EXPECT_EQ(Now(), Asking{AskStage::kAwaited});
  ask().open.reset();
  EXPECT_EQ(Now(), Asking{AskStage::kNext});
  ask().failures = 2;
  ask().retry_at = kNow + seconds(20);
  EXPECT_EQ(Now(), (Asking{AskStage::kFailed, kNow + seconds(20)}));
}

TEST_F(AskingStand, WhoNeverAsksIsCalledSo) {
  stored_.job.spec.scheduling.topology.required = "example.com/rack";
  EXPECT_EQ(Now(), Asking{});
  stored_.job.spec.scheduling.topology.required.clear();
  stored_.job.spec.scheduling.provisioning = Provisioning::kNone;
  EXPECT_EQ(Now(), Asking{});
}

TEST_F(AskingStand, PlaceholderPodsKeepRoomForAsLongAsAnAnswerIsTrusted) {
  stored_.job.spec.scheduling.provisioning = Provisioning::kPods;
  ask().open = OpenAsk{ProvisioningClass::kPlaceholderPods, "rev", kNow, false};
  EXPECT_EQ(Now(), Asking{AskStage::kAwaited});
  EXPECT_EQ(Stand().awaited_until, kNow + kRoomTimeout) << "when rounds are to be told anew";
  EXPECT_EQ(Now(kNow + kRoomTimeout), Asking{AskStage::kNext});
  EXPECT_FALSE(Stand(kNow + kRoomTimeout).awaited_until.has_value());
}

TEST_F(AskingStand, WhatAGangWasToldStandsWhileItsAskGoesOn) {
  Allocator allocator;
  allocator.SetJob({"default", "mnist"}, Stand());
  allocator.Ask(nullptr, kNow);
  ASSERT_TRUE(allocator.state().Find("default/mnist")->told.has_value());
  ask().open = OpenAsk{ProvisioningClass::kAtomicScaleUp, "rev", kNow, false};
  const uint64_t news = allocator.state().news();
  allocator.SetJob({"default", "mnist"}, Stand());
  EXPECT_EQ(allocator.state().Find("default/mnist")->request.asking.stage, AskStage::kOpen);
  EXPECT_TRUE(allocator.state().Find("default/mnist")->told.has_value());
  EXPECT_GT(allocator.state().news(), news) << "a round looks at it";
}

// An edit that only the decoder refuses made it untouchable for ever.
TEST(JobStand, GangWhoseManifestCannotBeReadKeepsWhatItWasPlacedWith) {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.run_policy.active_deadline = seconds(60);
  TestWorld world(job);
  world.Launch();
  StoredJob stored;
  stored.job = world.job;
  StandInputs inputs;
  inputs.stored = &stored;
  inputs.run_time_limit = RunTimeLimit{"vision", seconds(30)};
  const JobStand before = StandOf({"default", "mnist"}, inputs, world.now);
  ASSERT_TRUE(before.is_placed && before.request.is_preemptible);
  ASSERT_NE(before.run.stops_at, WallTime{});

  stored.problem = "spec.roles[0].template.spec.containers[0].resources.requests.memory: ...";
  const JobStand after = StandOf({"default", "mnist"}, inputs, world.now);

  EXPECT_TRUE(after.is_placed);
  EXPECT_TRUE(after.request.is_preemptible);
  EXPECT_EQ(after.run, before.run);
}

// Others reckon with its end in rounds that come before the API server has answered.
TEST(JobStand, GangIsStoppedInTimeAlsoWhileItsPlacesAreBeingWritten) {
  TrainingJob job = MakeTrainingJob(1);
  job.spec.run_policy.active_deadline = seconds(60);
  TestWorld world(job);
  StoredJob stored;
  stored.job = world.job;
  world.Launch();
  const TrainingJobStatus next = world.job.status;
  StandInputs inputs;
  inputs.stored = &stored;
  inputs.reserved = &next;
  const JobStand stand = StandOf({"default", "mnist"}, inputs, world.now);

  ASSERT_TRUE(stand.is_promised);
  stored.job.status = next;  // the server has it
  inputs.reserved = nullptr;
  const JobStand written = StandOf({"default", "mnist"}, inputs, world.now);
  EXPECT_FALSE(written.is_promised);
  EXPECT_EQ(stand.run, written.run);
  EXPECT_GT(stand.run.stops_at, *next.start_time);
}

}  // namespace
}  // namespace lockstep::control
