#include "operator/cli/checkpoint_folder.h"

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

  std::string folder_;
};

TEST_F(CheckpointFolderTest, NewestIsTheOneOfTheHighestStep) {
  Write("step-00000050");
  Write("step-00000100");
  Write("step-00000007");
  EXPECT_EQ(NewestCheckpointIn(folder_), Step(100));
}

TEST_F(CheckpointFolderTest, WhatIsNoCheckpointIsNotCounted) {
  Write("step-00000050");
  Write(".tmp-0123-save");
  Write("step-later");
  Write("step--5");
  EXPECT_EQ(NewestCheckpointIn(folder_), Step(50));
}

// The run says that it goes on from an older one, which can only be a warning when this is known.
TEST_F(CheckpointFolderTest, WhatHasBeenHarmedIsCounted) {
  Write("step-00000050");
  std::filesystem::create_directory(folder_ + "/step-00000200");  // without its manifest
  EXPECT_EQ(NewestCheckpointIn(folder_), Step(200));
  std::ofstream(folder_ + "/step-00000300") << "a file";
  EXPECT_EQ(NewestCheckpointIn(folder_), Step(300));
}

TEST_F(CheckpointFolderTest, NothingIsNone) {
  EXPECT_EQ(NewestCheckpointIn(folder_), std::nullopt);
  EXPECT_EQ(NewestCheckpointIn(folder_ + "/absent"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::control
