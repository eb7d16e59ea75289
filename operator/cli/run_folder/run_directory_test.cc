#include "operator/cli/run_folder/run_directory.h"

#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"

namespace lockstep::control {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "runs-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(RunDirectoryTest, KeyIsForItsOwnerOnly) {
  const auto run = RunDirectory::Open(folder_ + "/a/b");
  ASSERT_TRUE(run.ok()) << run.error().ToString();

  struct stat info {};

  ASSERT_EQ(::stat(run->KeyFile().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(ReadFile(run->KeyFile(), 1000).value(), run->job_key());
  EXPECT_EQ(run->job_key().size(), 64U);
}

TEST_F(RunDirectoryTest, SecondRunIsRefusedWithTheProcessOfTheFirst) {
  const auto first = RunDirectory::Open(folder_);
  ASSERT_TRUE(first.ok());
  const auto second = RunDirectory::Open(folder_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message(),
              EndsWith("is in use by process " + std::to_string(::getpid())));
}

// Between taking the lock and noting the number, and after the holder's end was noted.
TEST_F(RunDirectoryTest, HolderThatHasNotNotedItsNumberIsNotCalledByAnotherOne) {
  const UniqueFd held(::open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  for (const char* const noted : {"", "999999999\n{}"}) {  // of the run before, if any
    ASSERT_EQ(::ftruncate(held.get(), 0), 0);
    ASSERT_TRUE(WriteFileInPlace(folder_ + "/lock", noted).ok());
    const auto second = RunDirectory::Open(folder_);
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().message(),
                EndsWith("is in use by a run that is just starting or ending"));
  }
}

TEST_F(RunDirectoryTest, HolderWhoseEndIsNotedIsNamedByItsNumberAlone) {
  const auto first = RunDirectory::Open(folder_);
  ASSERT_TRUE(first->NoteEnd("{}").ok());
  EXPECT_THAT(RunDirectory::Open(folder_).error().message(),
              EndsWith("is in use by process " + std::to_string(::getpid())));
}

// Written over as root, a link's target would be lost; a pipe's other end may never come.
TEST_F(RunDirectoryTest, LockThatIsNoFileIsRefused) {
  const std::string victim = folder_ + "/victim";
  ASSERT_TRUE(WriteFileAtomically(victim, "keep me").ok());
  std::filesystem::create_symlink(victim, folder_ + "/lock");
  const auto linked = RunDirectory::Open(folder_);
  ASSERT_FALSE(linked.ok());
  EXPECT_THAT(linked.error().message(), EndsWith("/lock is a symbolic link, expected a file"));
  EXPECT_EQ(ReadFile(victim, 100).value(), "keep me");
  std::filesystem::remove(folder_ + "/lock");
  ASSERT_EQ(::mkfifo((folder_ + "/lock").c_str(), 0600), 0);
  const auto piped = RunDirectory::Open(folder_);
  ASSERT_FALSE(piped.ok());
  EXPECT_THAT(piped.error().message(), EndsWith("/lock is a pipe or a device, expected a file"));
  EXPECT_EQ(HolderOf(folder_), std::nullopt);
}

// Of two runs with one checkpoint.directory each trained on from the other's weights.
TEST_F(RunDirectoryTest, CheckpointsOfALivingRunAreNotSharedByAnyName) {
  const std::string folder = folder_ + "/shared/checkpoints";
  {
    const auto first = LockCheckpoints(folder);
    ASSERT_TRUE(first.ok()) << first.error().ToString();
    std::filesystem::create_symlink(folder, folder_ + "/link");
    for (const std::string& name : {folder, folder_ + "/link", folder_ + "/shared/../link"}) {
      const auto second = LockCheckpoints(name);
      ASSERT_FALSE(second.ok()) << name;
      EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
      EXPECT_THAT(second.error().message(),
                  AllOf(HasSubstr(name), EndsWith("by process " + std::to_string(::getpid()))));
    }
  }
  EXPECT_TRUE(LockCheckpoints(folder).ok()) << "it goes with its holder";
}

TEST_F(RunDirectoryTest, EndedRunsDirectoryIsTakenOverWithANewKey) {
  std::string first_key;
  {
    const auto first = RunDirectory::Open(folder_);
    ASSERT_TRUE(first.ok());
    first_key = first->job_key();
  }
  const auto second = RunDirectory::Open(folder_);
  ASSERT_TRUE(second.ok()) << second.error().ToString();
  EXPECT_NE(second->job_key(), first_key);
}

TEST_F(RunDirectoryTest, FileInTheWayIsNamed) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "").ok());
  const auto run = RunDirectory::Open(folder_ + "/file");
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().ToString(), HasSubstr(folder_ + "/file"));
}

TEST_F(RunDirectoryTest, DefaultNameCarriesJobAndTimeAndIsFree) {
  const WallTime when(std::chrono::milliseconds(1'000'000'000'000));
  const std::string first = DefaultRunDirectory(folder_, "mnist", when);
  EXPECT_EQ(first, folder_ + "/runs/mnist-20010909T014640Z");
  std::filesystem::create_directories(first);
  EXPECT_EQ(DefaultRunDirectory(folder_, "mnist", when), first + "-2");
}

}  // namespace
}  // namespace lockstep::control
