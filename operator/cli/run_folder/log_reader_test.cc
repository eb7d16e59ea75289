#include "operator/cli/run_folder/log_reader.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "logs-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Append(const std::string& pod, const std::string& text) {
    std::filesystem::create_directories(folder_ + "/pods/" + pod);
    std::ofstream(folder_ + "/pods/" + pod + "/pod.log", std::ios::app) << text;
  }

  std::vector<std::string> New(LogReader* reader, bool is_last = false) {
    std::vector<std::string> lines;
    reader->ReadNew(is_last, [&lines](const std::string& pod, std::string_view line) {
      lines.push_back(pod + ": " + std::string(line));
    });
    return lines;
  }

  std::string folder_;
};

TEST_F(LogReaderTest, LinesComeOnceAndWhole) {
  LogReader reader(folder_, "");
  EXPECT_THAT(New(&reader), IsEmpty());
  Append("a", "one\ntw");
  Append("b", "other\n");
  EXPECT_THAT(New(&reader), ElementsAre("a: one", "b: other"));
  Append("a", "o\nrest");
  EXPECT_THAT(New(&reader), ElementsAre("a: two"));
  EXPECT_THAT(New(&reader, true), ElementsAre("a: rest"));
}

TEST_F(LogReaderTest, OnePodIsReadAlone) {
  Append("a", "one\n");
  Append("b", "other\n");
  LogReader reader(folder_, "b");
  EXPECT_THAT(reader.Pods(), ElementsAre("b"));
  EXPECT_THAT(New(&reader), ElementsAre("b: other"));
}

TEST_F(LogReaderTest, NameOfARankIsThatOfAllItsPods) {
  Append("job-worker-1", "one\n");
  Append("job-worker-1-r1", "two\n");
  Append("job-worker-10", "other\n");
  EXPECT_THAT(LogReader(folder_, "worker-1").Pods(),
              ElementsAre("job-worker-1", "job-worker-1-r1"));
}

TEST_F(LogReaderTest, OlderHalfComesFirst) {
  Append("a", "new\n");
  std::ofstream(folder_ + "/pods/a/pod.log.1") << "old\nhalf a li";
  std::ofstream(folder_ + "/pods/a/pod.log") << "ne\nnew\n";
  LogReader reader(folder_, "");
  EXPECT_THAT(New(&reader), ElementsAre("a: old", "a: half a line", "a: new"));
  EXPECT_THAT(New(&reader, true), IsEmpty());
}

TEST_F(LogReaderTest, LogThatWasMovedAsideMeanwhileIsReadToItsEnd) {
  Append("a", "one\n");
  LogReader reader(folder_, "");
  EXPECT_THAT(New(&reader), ElementsAre("a: one"));
  Append("a", "two\n");
  std::filesystem::rename(folder_ + "/pods/a/pod.log", folder_ + "/pods/a/pod.log.1");
  Append("a", "three, and longer than what was there\n");
  EXPECT_THAT(New(&reader), ElementsAre("a: two", "a: three, and longer than what was there"));
}

TEST_F(LogReaderTest, LogThatBeganAnewIsReadFromItsStart) {
  Append("a", "a long first line\n");
  LogReader reader(folder_, "");
  New(&reader);
  std::ofstream(folder_ + "/pods/a/pod.log") << "new\n";
  EXPECT_THAT(New(&reader), ElementsAre("a: new"));
}

}  // namespace
}  // namespace lockstep::control
