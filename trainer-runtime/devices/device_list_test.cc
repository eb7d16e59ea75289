#include "trainer-runtime/devices/device_list.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "common/base/testing/paths.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kNoLibrary = "liblockstep-no-such-library.so";
using Devices = std::vector<GpuDevice>;

// The management library's double, showing the devices of one test.
class DeviceList : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("LOCKSTEP_TEST_NVML_DEVICES"); }

  static Result<Devices> ListWith(const std::string& devices,
                                  const EnvironmentMap& variables = {}) {
    ::setenv("LOCKSTEP_TEST_NVML_DEVICES", devices.c_str(), 1);
    return ListDevices(variables, BuiltFile("bin/liblockstep_test_nvml.so"));
  }
};

TEST_F(DeviceList, LibrarysDevicesComeInBusOrder) {
  EXPECT_EQ(
      ListWith("GPU-b@00000000:3B:00.0,GPU-a@00000000:86:00.0,GPU-c@00000000:1A:00.0").value(),
      (Devices{{"GPU-c", "00000000:1A:00.0"},
               {"GPU-b", "00000000:3B:00.0"},
               {"GPU-a", "00000000:86:00.0"}}));
}

TEST_F(DeviceList, LibraryWinsOverTheEnvironment) {
  EXPECT_EQ(ListWith("GPU-a@1", {{"NVIDIA_VISIBLE_DEVICES", "GPU-x,GPU-y"}}).value(),
            (Devices{{"GPU-a", "1"}}));
}

// Two slices of one GPU are two devices, each with a name of its own; the GPU itself is none.
TEST_F(DeviceList, SlicesStandForTheirGpu) {
  EXPECT_EQ(ListWith("GPU-b@2,GPU-a@1/MIG-a1/-/MIG-a2/!").value(),
            (Devices{{"MIG-a1", "1"}, {"MIG-a2", "1"}, {"GPU-b", "2"}}));
  EXPECT_EQ(ListWith("GPU-a@1/-").value(), Devices());
}

TEST_F(DeviceList, LibraryThatRefusesIsAnErrorInItsOwnWords) {
  const Result<Devices> devices = ListWith("broken");

  ASSERT_FALSE(devices.ok());
  EXPECT_EQ(devices.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(devices.error().message().find("Driver Not Loaded"), std::string::npos);
}

TEST_F(DeviceList, MoreThanTheBoundIsRefused) {
  std::string many;
  for (int i = 0; i <= kDevicesMax; ++i) {
    many += "GPU-" + std::to_string(i) + "@0,";
  }
  many.pop_back();

  EXPECT_EQ(ListWith(many).error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(ListDevices({{"NVIDIA_VISIBLE_DEVICES", many}}, kNoLibrary).error().field(),
            "NVIDIA_VISIBLE_DEVICES");
}

TEST_F(DeviceList, WithoutTheLibraryNamesOfTheDevicePluginCount) {
  const std::pair<const char*, Devices> cases[] = {
      {"GPU-1,MIG-2", {{"GPU-1", ""}, {"MIG-2", ""}}},
      {"GPU-2,GPU-1,GPU-2", {{"GPU-2", ""}, {"GPU-1", ""}}},
      {"all", {}},
      {"none", {}},
      {"void", {}},
      {"", {}},
      {"0,1", {}},
      {",,", {}},
  };
  for (const auto& [value, expected] : cases) {
    EXPECT_EQ(ListDevices({{"NVIDIA_VISIBLE_DEVICES", value}}, kNoLibrary).value(), expected)
        << "'" << value << "'";
  }
  EXPECT_EQ(ListDevices({}, kNoLibrary).value(), Devices());
}

TEST(DeviceVariables, NameDevicesByUuidInBusOrder) {
  EXPECT_EQ(DeviceVariables({{"GPU-a", "1"}, {"GPU-b", "2"}}, {}),
            (EnvironmentMap{{"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"},
                            {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}));
}

TEST(DeviceVariables, NothingWithoutDevicesOrAgainstTheProgramsOwnChoice) {
  EXPECT_EQ(DeviceVariables({}, {}), EnvironmentMap());
  EXPECT_EQ(DeviceVariables({{"GPU-a", "1"}}, {{"CUDA_VISIBLE_DEVICES", "GPU-z"}}),
            EnvironmentMap());
}

}  // namespace
}  // namespace lockstep::runtime
