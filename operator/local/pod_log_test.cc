#include "operator/local/pod_log.h"

#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;

class PodLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "log-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    options_.path = folder_ + "/pod.log";
    options_.on_line = [this](std::string_view line) { lines_.emplace_back(line); };
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Content(const std::string& name) {
    return ReadFile(folder_ + "/" + name, 1 << 20).value();
  }

  std::string folder_;
  PodLogOptions options_;
  std::vector<std::string> lines_;
};

TEST_F(PodLogTest, PiecesAreEchoedAsLines) {
  PodLog log = PodLog::Open(options_).value();
  log.Append("one\ntw", TimePoint());
  log.Append("o\n\nthr", TimePoint());
  EXPECT_THAT(lines_, ElementsAre("one", "two", ""));
  log.Finish();
  EXPECT_THAT(lines_, ElementsAre("one", "two", "", "thr"));
  EXPECT_EQ(Content("pod.log"), "one\ntwo\n\nthr");
}

// A progress bar of a thousand states is not one line of 11,000 characters with \x0d in it.
TEST_F(PodLogTest, OverwrittenLineIsEchoedInItsLastState) {
  PodLog log = PodLog::Open(options_).value();
  for (int state = 0; state < 1000; ++state) {
    log.Append("\rstate " + std::to_string(state), TimePoint());
  }
  log.Append("\r\nend\n", TimePoint());
  EXPECT_THAT(lines_, ElementsAre("state 0", "state 999", "end"));
}

TEST_F(PodLogTest, EndlessLineIsEchoedInPieces) {
  options_.line_bytes_max = 4;
  PodLog log = PodLog::Open(options_).value();
  log.Append("abcdefghij\n", TimePoint());
  EXPECT_THAT(lines_, ElementsAre("abcd", "efgh", "ij"));
}

TEST_F(PodLogTest, FullFileIsMovedAside) {
  options_.bytes_max = 10;
  PodLog log = PodLog::Open(options_).value();
  log.Append("first...\n", TimePoint());
  log.Append("second\n", TimePoint());
  EXPECT_EQ(Content("pod.log.1"), "first...\n");
  EXPECT_EQ(Content("pod.log"), "second\n");
}

TEST_F(PodLogTest, LogOfAnEarlierRunIsGoneOnWith) {
  options_.bytes_max = 10;
  PodLog::Open(options_).value().Append("before\n", TimePoint());
  PodLog log = PodLog::Open(options_).value();
  log.Append("on\n", TimePoint());
  EXPECT_EQ(Content("pod.log"), "before\non\n");
  log.Append("later\n", TimePoint());
  EXPECT_EQ(Content("pod.log.1"), "before\non\n");
  EXPECT_EQ(log.Tail(), "on\nlater\n");
}

TEST_F(PodLogTest, TailStartsWithAWholeLine) {
  PodLog log = PodLog::Open(options_).value();
  for (int line = 0; line < 1000; ++line) {
    log.Append("line " + std::to_string(line) + "\n", TimePoint());
  }
  const std::string tail = log.Tail();
  EXPECT_LE(tail.size(), 2048U);
  EXPECT_TRUE(tail.starts_with("line "));
  EXPECT_TRUE(tail.ends_with("line 999\n"));
}

// To open one waits until somebody reads, and nobody does.
TEST_F(PodLogTest, PipeIsRefusedWithAndWithoutAReader) {
  ASSERT_EQ(::mkfifo(options_.path.c_str(), 0600), 0);
  const auto why = [this] {
    const auto log = PodLog::Open(options_);
    return log.ok() ? "opened" : log.error().message();
  };
  const std::string refusal = "the log " + options_.path + " is a pipe, not a file";
  EXPECT_EQ(why(), refusal);
  const UniqueFd reader(::open(options_.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_EQ(why(), refusal);
}

TEST_F(PodLogTest, FullDiskDropsBytesAndCountsThemWithTheReason) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  options_.path = "/dev/full";
  PodLog log = PodLog::Open(options_).value();
  log.Append("words\n", TimePoint());
  log.Append("more\n", TimePoint());
  EXPECT_EQ(log.lost().bytes, 11);
  EXPECT_EQ(log.lost().error, "/dev/full: write: No space left on device");
  EXPECT_THAT(lines_, ElementsAre("words", "more"));
}

}  // namespace
}  // namespace lockstep::control
