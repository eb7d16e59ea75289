#include "common/base/io/file.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace lockstep {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "lockstep-file-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_F(FileTest, AtomicWriteReplacesAndLeavesNothingBeside) {
  const std::string path = directory_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "two").ok());
  EXPECT_EQ(ReadFile(path, 100).value(), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(FileTest, AtomicWriteIntoMissingFolderIsNotFound) {
  const Status status = WriteFileAtomically(directory_ + "/none/a", "one");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kNotFound);
}

TEST_F(FileTest, WriteThatFindsNoRoomSaysHowMuchItNeedsAndHowMuchThereIs) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit two{2, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &two);
  const Status status = WriteFileAtomically(directory_ + "/a", "three");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(status.error().ToString(),
              testing::ContainsRegex("write: .* \\(5 bytes to write, [1-9][0-9]* free\\)$"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(FileTest, WriteInPlaceKeepsTheFileAndCutsWhatIsLeft) {
  const std::string path = directory_ + "/a";
  ASSERT_TRUE(WriteFileInPlace(path, "a long text").ok());
  const uint64_t file = InodeOf(path);
  ASSERT_TRUE(WriteFileInPlace(path, "short").ok());
  EXPECT_EQ(ReadFile(path, 100).value(), "short");
  EXPECT_EQ(InodeOf(path), file);
  EXPECT_TRUE(WriteFileInPlace("/dev/null", "text").ok());
}

TEST_F(FileTest, ReservedFileIsEmptyAndHasRoom) {
  const std::string path = directory_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "of an earlier run").ok());
  const Status reserved = ReserveFile(path, 4096);
  ASSERT_TRUE(reserved.ok()) << reserved.error().ToString();

  struct stat status {};

  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 0);
  EXPECT_GE(status.st_blocks * 512, 4096);
  ASSERT_TRUE(WriteFileInPlace(path, "words").ok());
  EXPECT_EQ(ReadFile(path, 100).value(), "words");
}

TEST_F(FileTest, MissingFileHasNoNumber) {
  EXPECT_EQ(InodeOf(directory_ + "/none"), 0U);
}

TEST_F(FileTest, ReadRefusesMoreThanTheLimit) {
  const std::string path = directory_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "12345").ok());
  EXPECT_EQ(ReadFile(path, 5).value(), "12345");
  EXPECT_EQ(ReadFile(path, 4).error().code(), ErrorCode::kResourceExhausted);
}

TEST_F(FileTest, ReadOfMissingFileIsNotFound) {
  EXPECT_EQ(ReadFile(directory_ + "/none", 1).error().code(), ErrorCode::kNotFound);
}

TEST_F(FileTest, RegularFileIsReadAndNothingElseIsWaitedFor) {
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/a", "one").ok());
  EXPECT_EQ(ReadRegularFile(directory_ + "/a", 100).value(), "one");
  EXPECT_EQ(ReadRegularFile(directory_ + "/none", 100).error().code(), ErrorCode::kNotFound);
  ASSERT_EQ(::mkfifo((directory_ + "/pipe").c_str(), 0600), 0);
  const Result<std::string> pipe = ReadRegularFile(directory_ + "/pipe", 100);
  ASSERT_FALSE(pipe.ok());
  EXPECT_EQ(pipe.error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(pipe.error().message(), directory_ + "/pipe is a pipe or a device, expected a file");
  const Result<std::string> folder = ReadRegularFile(directory_, 100);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().message(), directory_ + " is a folder, expected a file");
}

}  // namespace
}  // namespace lockstep
