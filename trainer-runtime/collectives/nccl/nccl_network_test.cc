#include "trainer-runtime/collectives/nccl/nccl_network.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

// A node's cards and a process's descriptors, in a folder of the test's own.
class UnusedCardsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lockstep-cards-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "fd");
    Open("3", "/dev/nvidia0");
    Open("4", "socket:[4711]");
  }

  void TearDown() override { fs::remove_all(folder_); }

  void AddCard(const std::string& name, const std::string& state, const std::string& link) {
    const fs::path port = folder_ / "infiniband" / name / "ports" / "1";
    fs::create_directories(port);
    std::ofstream(port / "state") << state << "\n";
    std::ofstream(port / "link_layer") << link << "\n";
  }

  void Open(const std::string& number, const std::string& what) {
    fs::create_symlink(what, folder_ / "fd" / number);
  }

  std::string Found() const {
    return UnusedCards({(folder_ / "infiniband").string(), (folder_ / "fd").string()});
  }

 private:
  fs::path folder_;
};

TEST_F(UnusedCardsTest, NodeWithoutCardsHasNone) {
  EXPECT_EQ(Found(), "");
}

TEST_F(UnusedCardsTest, CardThatNcclHasNotOpenedIsNamed) {
  AddCard("mlx5_0", "4: ACTIVE", "InfiniBand");
  AddCard("mlx5_1", "4: ACTIVE", "Ethernet");
  EXPECT_EQ(Found(), "mlx5_0 (InfiniBand), mlx5_1 (Ethernet)");
}

TEST_F(UnusedCardsTest, CardThatNcclHasOpenedIsInUse) {
  AddCard("mlx5_0", "4: ACTIVE", "InfiniBand");
  Open("7", "/dev/infiniband/uverbs0");
  EXPECT_EQ(Found(), "");
}

// NCCL would not use it either.
TEST_F(UnusedCardsTest, CardWhosePortsAreDownIsNotMissed) {
  AddCard("mlx5_0", "1: DOWN", "InfiniBand");
  EXPECT_EQ(Found(), "");
}

TEST_F(UnusedCardsTest, ManyCardsAreCounted) {
  for (char digit = '0'; digit <= '9'; ++digit) {
    AddCard(std::string("mlx5_") + digit, "4: ACTIVE", "InfiniBand");
  }
  EXPECT_TRUE(Found().ends_with("mlx5_7 (InfiniBand) and 2 more")) << Found();
}

TEST(NcclChoosesNetwork, UnlessTheJobHasChosen) {
  EXPECT_TRUE(NcclChoosesNetwork({}));
  EXPECT_TRUE(NcclChoosesNetwork({{"NCCL_IB_DISABLE", "0"}, {"NCCL_IB_HCA", "mlx5_0"}}));
  EXPECT_FALSE(NcclChoosesNetwork({{"NCCL_IB_DISABLE", "1"}}));
  EXPECT_FALSE(NcclChoosesNetwork({{"NCCL_NET", "Socket"}}));
  EXPECT_FALSE(NcclChoosesNetwork({{"NCCL_NET_PLUGIN", "ofi"}}));
}

}  // namespace
}  // namespace lockstep::runtime
