#include "operator/cli/run_folder/checkpoint_folder.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

class CheckpointFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "checkpoints-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name) {
    std::filesystem::create_directory(folder_ + "/" + name);
    std::ofstream(folder_ + "/" + name + "/manifest.json") << "{}";
  }

  static std::optional<Step> HighestIn(const std::string& folder) {
    return HighestOf(NewestCheckpointsIn(folder).value());
  }

  std::string folder_;
};

TEST_F(CheckpointFolderTest, NewestIsTheOneOfTheHighestStep) {
  Write("step-00000050");
  Write("step-00000100");
  Write("step-00000007");
  EXPECT_EQ(HighestIn(folder_), Step(100));
}

TEST_F(CheckpointFolderTest, OfSeveralModelsTheNewestOfAllCounts) {
  for (const char* model : {"rank-0", "rank-1", "rank-x"}) {
    std::filesystem::create_directory(folder_ + "/" + model);
  }
  Write("rank-0/step-00000050");
  Write("rank-1/step-00000070");
  Write("rank-x/step-00000090");
  EXPECT_EQ(HighestIn(folder_), Step(70));
}

TEST_F(CheckpointFolderTest, WhatIsNoCheckpointIsNotCounted) {
  Write("step-00000050");
  Write(".tmp-0123-save");
  Write("step-later");
  Write("step--5");
  std::filesystem::create_directory(folder_ + "/step-99999999");
  std::ofstream(folder_ + "/step-00000300") << "a file";
  EXPECT_EQ(HighestIn(folder_), Step(50));
}

// The run says that it goes on from an older one, which can only be a warning when this is known.
TEST_F(CheckpointFolderTest, WhatHasBeenHarmedIsCounted) {
  Write("step-00000050");
  std::filesystem::create_directory(folder_ + "/step-00000200");
  std::ofstream(folder_ + "/step-00000200/tensors.safetensors") << "without a manifest";
  EXPECT_EQ(HighestIn(folder_), Step(200));
}

TEST_F(CheckpointFolderTest, NothingIsNone) {
  EXPECT_EQ(HighestIn(folder_), std::nullopt);
  EXPECT_EQ(HighestIn(folder_ + "/absent"), std::nullopt);
}

// A folder that cannot be read may hold what must not be begun anew.
TEST_F(CheckpointFolderTest, WhatCannotBeReadIsAnErrorAndNotEmpty) {
  std::filesystem::create_symlink("loop", folder_ + "/loop");
  const auto newest = NewestCheckpointsIn(folder_ + "/loop");
  ASSERT_FALSE(newest.ok());
  EXPECT_EQ(newest.error().message(),
            "reading the checkpoints in " + folder_ + "/loop: Too many levels of symbolic links");
  std::ofstream(folder_ + "/file") << "a file";
  EXPECT_EQ(HighestIn(folder_ + "/file"), std::nullopt) << "the trainer says so";
}

}  // namespace
}  // namespace lockstep::control
