#include "trainer-runtime/devices/device.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using Lists = std::vector<std::vector<int>>;

TEST(AssignDevices, ProcessesTakeDevicesInTurn) {
  EXPECT_EQ(AssignDevices(2, 2), (Lists{{0}, {1}}));
  EXPECT_EQ(AssignDevices(2, 5), (Lists{{0}, {1}, {0}, {1}, {0}}));
  EXPECT_EQ(AssignDevices(1, 3), (Lists{{0}, {0}, {0}}));
}

TEST(AssignDevices, FewProcessesShareOutAllDevices) {
  EXPECT_EQ(AssignDevices(4, 1), (Lists{{0, 1, 2, 3}}));
  EXPECT_EQ(AssignDevices(5, 2), (Lists{{0, 2, 4}, {1, 3}}));
}

TEST(AssignDevices, NoDevicesGiveEmptyLists) {
  EXPECT_EQ(AssignDevices(0, 2), (Lists{{}, {}}));
}

TEST(AssignDevices, EveryShareIsFairAndEveryDeviceUsed) {
  for (int devices = 1; devices <= 16; ++devices) {
    for (int processes = 1; processes <= 16; ++processes) {
      std::vector<int> users(static_cast<std::size_t>(devices));
      std::set<std::size_t> sizes;
      for (const std::vector<int>& list : AssignDevices(devices, processes)) {
        sizes.insert(list.size());
        for (const int device : list) {
          ++users[static_cast<std::size_t>(device)];
        }
      }
      const auto [least, most] = std::minmax_element(users.begin(), users.end());
      EXPECT_GE(*least, 1) << devices << " devices, " << processes << " processes";
      EXPECT_LE(*most - *least, 1) << devices << " devices, " << processes << " processes";
      EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1U);
    }
  }
}

std::vector<GpuDevice> Named(const std::vector<std::string>& uuids) {
  std::vector<GpuDevice> devices;
  for (const std::string& uuid : uuids) {
    devices.push_back({uuid, ""});
  }
  return devices;
}

TEST(VisibleDevices, EveryProcessOfACommandSeesAllInOneOrder) {
  const std::vector<GpuDevice> devices = Named({"GPU-a", "GPU-b", "GPU-c"});
  EXPECT_EQ(VisibleDevices(devices, 3, std::nullopt), (Lists{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}));
  EXPECT_EQ(VisibleDevices(devices, 2, std::nullopt), (Lists{{0, 1, 2}, {0, 1, 2}}));
  EXPECT_EQ(VisibleDevices(devices, 1, std::nullopt), (Lists{{0, 1, 2}}));
}

TEST(VisibleDevices, ProcessesThatShareDevicesSeeOneEachUnlessAskedForAll) {
  const std::vector<GpuDevice> devices = Named({"GPU-a", "GPU-b"});
  EXPECT_EQ(VisibleDevices(devices, 3, std::nullopt), (Lists{{0}, {1}, {0}}));
  EXPECT_EQ(VisibleDevices(devices, 3, GpuVisibility::kAll), (Lists{{0, 1}, {0, 1}, {0, 1}}));
}

TEST(VisibleDevices, OneOnRequest) {
  const std::vector<GpuDevice> devices = Named({"GPU-a", "GPU-b", "GPU-c"});
  EXPECT_EQ(VisibleDevices(devices, 3, GpuVisibility::kOne), (Lists{{0}, {1}, {2}}));
  EXPECT_EQ(VisibleDevices(devices, 1, GpuVisibility::kOne), (Lists{{0}}));
}

TEST(VisibleDevices, ProcessSeesOneSliceOfAGpu) {
  const std::vector<GpuDevice> slices = Named({"MIG-a", "MIG-b"});
  EXPECT_EQ(VisibleDevices(slices, 2, std::nullopt), (Lists{{0}, {1}}));
  EXPECT_EQ(VisibleDevices(slices, 1, std::nullopt), (Lists{{0, 1}}));
}

TEST(VisibleDevices, NoDevicesGiveEmptyLists) {
  EXPECT_EQ(VisibleDevices({}, 2, std::nullopt), (Lists{{}, {}}));
  EXPECT_EQ(VisibleDevices({}, 2, GpuVisibility::kOne), (Lists{{}, {}}));
}

}  // namespace
}  // namespace lockstep::runtime
