// What the operator makes of pods' reports, beside the training's progress.

#include <limits>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/device_check.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

class ReportsTest : public testing::Test {
 protected:
  ReportsTest() : world_(JobWithGpus()) {
    world_.Launch();
    world_.ReportAll();
  }

  static TrainingJob JobWithGpus() {
    TrainingJob job = MakeTrainingJob(2);
    job.spec.roles.front().gpus = 2;
    return job;
  }

  void Show(const std::string& pod, const std::vector<std::string>& devices) {
    StatusDocument& document = world_.observed.reports.at(pod).document;
    document.devices.clear();
    for (const std::string& device : devices) {
      document.devices.push_back({device, "", {}});
    }
  }

  const Condition* Judgement() const {
    return FindCondition(world_.job.status, ConditionType::kGpuAssignment);
  }

  TestWorld world_;
};

TEST_F(ReportsTest, DevicesOfAllPodsAreKeptAndFoundAsPlanned) {
  Show("mnist-worker-0", {"GPU-b", "GPU-a"});
  world_.Step();
  EXPECT_EQ(Judgement(), nullptr) << "the other has not told";

  Show("mnist-worker-1", {"GPU-c", "GPU-d"});
  world_.Step();
  ASSERT_NE(Judgement(), nullptr);
  EXPECT_TRUE(Judgement()->is_true);
  EXPECT_EQ(world_.job.status.placement.front().devices,
            (std::vector<std::string>{"GPU-a", "GPU-b"}));
}

TEST_F(ReportsTest, AnotherNumberOfDevicesThanPlannedIsSaid) {
  Show("mnist-worker-0", {"GPU-a"});
  world_.Step();
  ASSERT_NE(Judgement(), nullptr);
  EXPECT_FALSE(Judgement()->is_true);
  EXPECT_EQ(Judgement()->message, "pod mnist-worker-0 (rank 0) sees 1 GPU, but requests 2");
}

TEST_F(ReportsTest, DeviceInTwoPodsIsSaid) {
  Show("mnist-worker-0", {"GPU-a", "GPU-b"});
  Show("mnist-worker-1", {"GPU-b", "GPU-c"});
  world_.Step();
  ASSERT_NE(Judgement(), nullptr);
  EXPECT_EQ(Judgement()->message,
            "GPU-b of node node-a is seen by pod mnist-worker-1 (rank 1) and by pod mnist-worker-0 "
            "(rank 0)");

  Show("mnist-worker-1", {"GPU-c", "GPU-d"});
  world_.observed.devices_elsewhere["node-a"] = {"GPU-c"};
  world_.Step();
  EXPECT_NE(Judgement()->message.find("by a pod of another job"), std::string::npos);

  world_.observed.devices_elsewhere.clear();
  world_.Step();
  EXPECT_TRUE(Judgement()->is_true);
}

TEST_F(ReportsTest, PodsThatDoNotTakeTheKeyAreSaidUntilTheyDo) {
  world_.Step();
  EXPECT_EQ(FindCondition(world_.job.status, ConditionType::kRuntimeHeard), nullptr);

  world_.observed.refusing_pods = {{"mnist-worker-1", TokenVerdict::kForeign},
                                   {"somebody-else", TokenVerdict::kForeign}};
  const Decision decision = world_.Step();
  EXPECT_NE(EventReasons(decision).find("KeyRefused"), std::string::npos);
  const std::string message = MessageOf(world_.job.status, ConditionType::kRuntimeHeard);
  EXPECT_EQ(message.find("1 pod does not accept the operator's key"), 0U) << message;
  EXPECT_NE(message.find("Training continues, and its result is safe"), std::string::npos)
      << message;
  EXPECT_NE(message.find("delete the Secret mnist-"), std::string::npos) << message;
  EXPECT_NE(message.find("Training then begins at step 0: no volume is mounted at"),
            std::string::npos)
      << message;

  world_.observed.refusing_pods.clear();
  const auto reports = std::exchange(world_.observed.reports, {});
  world_.Step();
  EXPECT_FALSE(IsTrue(world_.job.status, ConditionType::kRuntimeHeard)) << "nobody has answered";

  world_.observed.reports = reports;
  world_.Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kRuntimeHeard));
}

TEST_F(ReportsTest, ClockThatDiffersIsNotTakenForAKeyThatDoes) {
  world_.observed.refusing_pods = {{"mnist-worker-1", TokenVerdict::kExpired}};
  const Decision decision = world_.Step();
  EXPECT_NE(EventReasons(decision).find("ClockDiffers"), std::string::npos);
  const std::string message = MessageOf(world_.job.status, ConditionType::kRuntimeHeard);
  EXPECT_NE(message.find("the clocks of node " + world_.Find("mnist-worker-1")->spec.node_name),
            std::string::npos)
      << message;
  EXPECT_EQ(message.find("delete the Secret"), std::string::npos) << message;
}

// The pods' last word is that they run; whoever looks has to see that nobody knows.
TEST_F(ReportsTest, PodsThatNobodyHearsOnANodeThatDoesNotReportAreSaid) {
  const auto reports = std::exchange(world_.observed.reports, {});
  world_.nodes().front().is_ready = false;
  const Decision decision = world_.Step();
  EXPECT_NE(EventReasons(decision).find("NodeNotReady"), std::string::npos);
  EXPECT_EQ(MessageOf(world_.job.status, ConditionType::kRuntimeHeard)
                .find("node node-a does not report, so the state of 2 pods is unknown"),
            0U);

  world_.nodes().front().is_ready = true;
  world_.Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kRuntimeHeard));

  world_.observed.reports = reports;
  world_.nodes().front().is_ready = false;
  world_.Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kRuntimeHeard)) << "they answer";
}

// A copy of a pod with all its labels, as `kubectl debug --copy-to --keep-labels` makes one.
TEST_F(ReportsTest, CopyOfAPodWithItsLabelsIsNobodysToRemove) {
  kube::Pod copy = *world_.Find("mnist-worker-0");
  copy.name = "debugger";
  copy.uid = "debugger-uid";
  copy.owner_uid.clear();
  world_.observed.pods.push_back(copy);
  EXPECT_EQ(DescribeEffects(world_.Step()).find("debugger"), std::string::npos);
}

TEST_F(ReportsTest, NameOfADeviceIsCut) {
  Show("mnist-worker-0", {std::string(4096, 'x')});
  world_.Step();
  EXPECT_EQ(world_.job.status.placement.at(0).devices.at(0).size(), kDeviceNameBytesMax);
}

TEST_F(ReportsTest, DevicesOfAJobWithTooManyAreNotWrittenDown) {
  Show("mnist-worker-0", {"GPU-a"});
  world_.Step();
  ASSERT_FALSE(world_.job.status.placement.at(0).devices.empty());
  world_.job.spec.roles[0].gpus = kDevicesRecordedMax;
  world_.Step();

  EXPECT_TRUE(world_.job.status.placement.at(0).devices.empty());
  ASSERT_NE(Judgement(), nullptr);
  EXPECT_EQ(Judgement()->reason, "TooManyToRecord");
}

// Nobody can count on from there.
TEST_F(ReportsTest, EpochThatNoGangCanBeInIsNotBelieved) {
  const Epoch before = world_.job.status.epoch;
  world_.observed.reports["mnist-worker-0"].document.epoch =
      Epoch(std::numeric_limits<int64_t>::max());
  world_.Step();
  EXPECT_EQ(world_.job.status.epoch, before);

  world_.observed.reports["mnist-worker-0"].document.epoch = Epoch(7);
  world_.Step();
  EXPECT_EQ(world_.job.status.epoch, Epoch(7));
}

}  // namespace
}  // namespace lockstep::control
