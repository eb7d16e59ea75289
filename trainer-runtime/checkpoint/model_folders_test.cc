#include "trainer-runtime/checkpoint/model_folders.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

class ModelFolders : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "lockstep-models-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Make(const std::string& name) { std::filesystem::create_directory(directory_ + "/" + name); }

  std::string directory_;
};

TEST_F(ModelFolders, EachRankHasItsOwnInTheDirectory) {
  EXPECT_EQ(FolderOfModel("/models/", 12), "/models/rank-12");
}

TEST_F(ModelFolders, EmptyAndMissingDirectoriesAreOfEitherKind) {
  Make("rank-");
  Make("step-new");
  Make(".tmp-step-00000100");
  for (const bool several : {false, true}) {
    EXPECT_TRUE(CheckDirectoryKind(directory_, several).ok());
    EXPECT_TRUE(CheckDirectoryKind(directory_ + "/missing", several).ok());
  }
}

TEST_F(ModelFolders, OneModelIsNotGoneOnWithAsSeveral) {
  Make("step-00000200");
  Make("step-00000100");
  EXPECT_TRUE(CheckDirectoryKind(directory_, /*several=*/false).ok());
  const Status status = CheckDirectoryKind(directory_, /*several=*/true);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().ToString(),
              HasSubstr("holds step-00000100, a checkpoint of one model for all ranks, but "
                        "strategy Independent trains a model for each rank"));
}

TEST_F(ModelFolders, SeveralModelsAreNotGoneOnWithAsOne) {
  Make("rank-1");
  Make("rank-0");
  EXPECT_TRUE(CheckDirectoryKind(directory_, /*several=*/true).ok());
  const Status status = CheckDirectoryKind(directory_, /*several=*/false);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().field(), "spec.training.checkpoint.directory");
  EXPECT_THAT(
      status.error().message(),
      HasSubstr(
          "holds rank-0, the checkpoints of one rank's own model, but this strategy trains one"));
}

}  // namespace
}  // namespace lockstep::runtime
