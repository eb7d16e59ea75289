#include "common/base/io/output_file.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/io/file.h"

namespace lockstep {
namespace {

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "lockstep-output-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_F(OutputFileTest, OutputGoesBehindLinksAndNotInTheirPlace) {
  std::filesystem::create_directory(directory_ + "/there");
  std::filesystem::create_symlink("there/target", directory_ + "/link");
  for (const char* content : {"one", "two"}) {
    const Status written = WriteOutput(directory_ + "/link", content);
    ASSERT_TRUE(written.ok()) << written.error().ToString();
    EXPECT_TRUE(std::filesystem::is_symlink(directory_ + "/link"));
    EXPECT_EQ(ReadFile(directory_ + "/there/target", 100).value(), content);
  }
}

TEST_F(OutputFileTest, OutputIntoADeviceLeavesItADevice) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  std::filesystem::create_symlink("/dev/full", directory_ + "/full");
  const Status full = WriteOutput(directory_ + "/full", "words");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::is_character_file(directory_ + "/full"));
}

TEST_F(OutputFileTest, PipeThatNobodyReadsIsAnErrorAndNoWait) {
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(WriteOutput(pipe, "words").ok());
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace lockstep
