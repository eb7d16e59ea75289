#include "operator/view/reported_devices.h"

#include <gmock/gmock.h>

#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const JobId kOne{"default", "one"};
const JobId kOther{"default", "other"};

TrainingJobStatus On(const std::string& node, const std::set<std::string>& devices) {
  TrainingJobStatus status;
  PodPlacement placement;
  placement.node = node;
  placement.devices.assign(devices.begin(), devices.end());
  status.placement.push_back(placement);
  return status;
}

TEST(ReportedDevices, AreThoseOfOthersOnTheNodesOfTheJob) {
  ReportedDevices devices;
  devices.Add(kOne, On("a", {"GPU-1"}));
  devices.Add(kOther, On("a", {"GPU-2", "GPU-3"}));
  devices.Add({"team", "one"}, On("b", {"GPU-4"}));
  EXPECT_THAT(devices.OfOthers(kOne, On("a", {"GPU-1"})),
              ElementsAre(Pair("a", ElementsAre("GPU-2", "GPU-3"))));
  EXPECT_THAT(devices.OfOthers(kOther, On("a", {})), ElementsAre(Pair("a", ElementsAre("GPU-1"))));
  EXPECT_THAT(devices.OfOthers(kOne, On("c", {})), IsEmpty());
  EXPECT_THAT(devices.OfOthers(kOne, {}), IsEmpty());
}

TEST(ReportedDevices, GoWithTheStatusThatNamedThem) {
  ReportedDevices devices;
  devices.Add(kOther, On("a", {"GPU-2"}));
  devices.Remove(kOther, On("a", {"GPU-2"}));
  EXPECT_THAT(devices.OfOthers(kOne, On("a", {})), IsEmpty());
  TrainingJobStatus ended = On("a", {"GPU-2"});
  SetCondition(&ended, {ConditionType::kSucceeded, true, "Done", ""}, WallTime{});
  devices.Add(kOther, ended);
  EXPECT_THAT(devices.OfOthers(kOne, On("a", {})), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
