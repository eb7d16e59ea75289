#include "common/base/log.h"

#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "common/base/io/file.h"

namespace lockstep {
namespace {

TEST(FormatLogText, PutsFieldsAfterTheMessage) {
  EXPECT_EQ(FormatLogText("peer lost", {{"rank", 3}, {"reason", "reset"}}),
            "peer lost rank=3 reason=reset");
}

TEST(FormatLogText, QuotesWhatWouldNotParseBack) {
  EXPECT_EQ(FormatLogText("failed", {{"error", "no \"room\"\nleft"}, {"pod", ""}}),
            "failed error=\"no \\\"room\\\"\\nleft\" pod=\"\"");
}

TEST(FileLogger, AppendsWholeLinesOfAllLevels) {
  const std::string path = ::testing::TempDir() + "file_logger_test.log";
  ::unlink(path.c_str());
  {
    const auto logger = MakeFileLogger(path);
    ASSERT_TRUE(logger.ok()) << logger.error().ToString();
    logger.value()->Debug("small", {{"step", 1}});
    logger.value()->Error("large");
  }
  const std::string text = ReadFile(path, 4096).value();
  EXPECT_NE(text.find("Z debug small step=1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Z error large\n"), std::string::npos) << text;
  ::unlink(path.c_str());
}

TEST(FileLogger, FolderInTheWayIsAnError) {
  const auto logger = MakeFileLogger(::testing::TempDir());
  ASSERT_FALSE(logger.ok());
  EXPECT_EQ(logger.error().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace lockstep
