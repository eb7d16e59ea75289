#include "operator/local/machine.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>

#include <gtest/gtest.h>

#include "common/process/cores.h"

namespace lockstep::control {
namespace {

class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "machine-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("/proc/meminfo", "MemTotal:       1024 kB\nMemFree: 1 kB\n");
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  ResourceVector Describe() { return DescribeMachine(root_, "here", 4).allocatable; }

  std::string root_;
};

TEST_F(MachineTest, PlainMachineOffersItsCoresAndMemory) {
  EXPECT_EQ(Describe(), (ResourceVector{4000, 1024 * 1024, 0}));
}

TEST_F(MachineTest, UnlimitedControlGroupChangesNothing) {
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Describe(), (ResourceVector{4000, 1024 * 1024, 0}));
}

TEST_F(MachineTest, ControlGroupLimitsCount) {
  Write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(Describe(), (ResourceVector{1500, 4096, 0}));
}

TEST_F(MachineTest, DriverFoldersAreGpus) {
  Write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
  Write("/proc/driver/nvidia/gpus/0000:02:00.0/information", "");
  EXPECT_EQ(Describe().gpu_count, 2);
}

TEST_F(MachineTest, DeviceFilesAreGpusButControlFilesAreNot) {
  Write("/dev/nvidia0", "");
  Write("/dev/nvidia10", "");
  Write("/dev/nvidiactl", "");
  Write("/dev/nvidia-uvm", "");
  EXPECT_EQ(Describe().gpu_count, 2);
}

TEST(ThisMachine, HasAtLeastOneCoreAndSomeMemory) {
  const kube::Node node = DescribeMachine("", HostName(), CountCores());
  EXPECT_FALSE(node.name.empty());
  EXPECT_GE(node.allocatable.cpu_milli, 100);
  EXPECT_GT(node.allocatable.memory_bytes, 0);
}

}  // namespace
}  // namespace lockstep::control
