#include "operator/cmd/operator_publisher.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr WallTime kWallStart{seconds(1'000'000)};

TEST(OperatorPublisher, PlacesAfterAnAskForRoomTellHowLongTheyTookFromTheAsk) {
  OperatorMetrics metrics("api:443", "lockstep");
  OperatorPublisher publisher(nullptr, &metrics, nullptr);  // nothing is said or logged here
  TrainingJob job;
  job.spec.scheduling.queue = "vision";
  SetCondition(&job.status, {ConditionType::kScheduled, false, "Unschedulable", "w"}, kWallStart);
  const TrainingJobStatus waits = job.status;
  SetCondition(
      &job.status, {ConditionType::kScheduled, true, "GangPlaced", "p"}, kWallStart + seconds(300));
  publisher.OnStatus(waits, job);
  EXPECT_EQ(metrics.RenderText().find("lockstep_capacity_wait_seconds_count{class=\"check-capacity"
                                      ".autoscaling.x-k8s.io\",queue=\"vision\"}"),
            std::string::npos)
      << "it had asked nobody";

  TrainingJobStatus asks = waits;
  asks.provisioning = CapacityAsk{
      1, OpenAsk{ProvisioningClass::kCheckCapacity, "r", kWallStart + seconds(260)}, 0, {}, ""};
  publisher.OnStatus(asks, job);
  const std::string page = metrics.RenderText();
  const std::string labels = "class=\"check-capacity.autoscaling.x-k8s.io\",queue=\"vision\"";
  EXPECT_THAT(page, HasSubstr("lockstep_capacity_wait_seconds_count{" + labels + "} 1\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_capacity_wait_seconds_sum{" + labels + "} 40\n"));
}

TEST(OperatorPublisher, TimeForWhichAGangWasBrokenIsLostToItsLastFailure) {
  OperatorMetrics metrics("api:443", "lockstep");
  OperatorPublisher publisher(nullptr, &metrics, nullptr);
  TrainingJob job;
  SetCondition(&job.status, {ConditionType::kRestarting, true, "GangRestart", "b"}, kWallStart);
  job.status.incidents.resize(2);
  job.status.incidents[0].cause = "killed";
  job.status.incidents[1].cause = "oom";
  const TrainingJobStatus broken = job.status;
  const WallTime back = kWallStart + seconds(20);
  SetCondition(&job.status, {ConditionType::kRestarting, false, "GangRuns", "r"}, back);
  SetCondition(&job.status, {ConditionType::kRunning, true, "GangRuns", "r"}, back);
  publisher.OnStatus(broken, job);
  const std::string page = metrics.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_lost_seconds_total{cause=\"oom\"} 20\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_lost_seconds_total{cause=\"killed\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_gang_recovery_seconds_sum 20\n"));
}

}  // namespace
}  // namespace lockstep::control
