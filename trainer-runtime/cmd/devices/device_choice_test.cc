#include "trainer-runtime/cmd/devices/device_choice.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

const std::vector<GpuDevice>& TwoDevices() {
  static const std::vector<GpuDevice> devices = {{"GPU-a", ""}, {"GPU-b", ""}};
  return devices;
}

std::string RefusalOf(const std::vector<std::string>& asked,
                      const std::vector<GpuDevice>& visible) {
  const Result<std::vector<std::size_t>> picked = PickDevices(asked, visible);
  return picked.ok() ? "" : picked.error().ToString();
}

TEST(PickDevices, ByIndexAndByUuidInTheOrderAskedFor) {
  EXPECT_EQ(PickDevices({"GPU-b", "0"}, TwoDevices()).value(), (std::vector<std::size_t>{1, 0}));
  EXPECT_TRUE(PickDevices({}, {}).value().empty());
}

TEST(PickDevices, WhatIsNotVisibleIsNamedWithWhatIs) {
  EXPECT_EQ(RefusalOf({"0", "1"}, {{"GPU-a", ""}}),
            "spec.training.devices: 1 not found: 2 GPUs requested, 1 visible: GPU-a");
  EXPECT_EQ(RefusalOf({"GPU-c"}, TwoDevices()),
            "spec.training.devices: GPU-c not found: 1 GPU requested, 2 visible: GPU-a, GPU-b");
  EXPECT_EQ(RefusalOf({"0", "GPU-c"}, {}),
            "spec.training.devices: 0, GPU-c not found: 2 GPUs requested, none visible");
}

TEST(PickDevices, OneDeviceUnderTwoNamesIsRefused) {
  EXPECT_EQ(RefusalOf({"0", "GPU-a"}, TwoDevices()),
            "spec.training.devices: GPU-a found, but GPU-a is already in the list");
}

TEST(CheckDevices, EachDeviceIsNamedByItsUuidAndHasAReplica) {
  TrainingSpec spec;
  EXPECT_EQ(CheckDevices(spec, TwoDevices()).value(), spec);
  spec.devices = {"1", "GPU-a"};
  const TrainingSpec checked = CheckDevices(spec, TwoDevices()).value();
  EXPECT_EQ(checked.devices, (std::vector<std::string>{"GPU-b", "GPU-a"}));
  EXPECT_EQ(checked.replicas, 2);
}

TEST(CheckDevices, DeviceThatIsNotVisibleIsRefused) {
  TrainingSpec spec;
  spec.devices = {"2"};
  const Result<TrainingSpec> refused = CheckDevices(spec, TwoDevices());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::runtime
