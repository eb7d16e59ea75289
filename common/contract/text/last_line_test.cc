#include "common/contract/text/last_line.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(LastLine, TableOfOutputs) {
  EXPECT_EQ(LastLine(""), "");
  EXPECT_EQ(LastLine("\n \n"), "");
  EXPECT_EQ(LastLine("Traceback\nValueError: x\n\n"), "ValueError: x");
  EXPECT_EQ(LastLine("one"), "one");
  EXPECT_EQ(LastLine(" 1 %\r 2 %\rdisk full\r\n"), "disk full");
}

TEST(LastLine, OwnLinesAreReasonsOnlyWhereTheyTellOfAProblem) {
  EXPECT_EQ(LastLine("2026-11-23T15:54:38.123Z info  all ranks joined rank=0\n"), "");
  EXPECT_EQ(LastLine("2026-11-23T15:54:38.123Z debug pod started\n"), "");
  EXPECT_EQ(LastLine("2026-11-23T15:54:38.123Z error training failed\n"),
            "2026-11-23T15:54:38.123Z error training failed");
  EXPECT_EQ(LastLine("2026-11-23 info of another program\n"), "2026-11-23 info of another program");
}

// The reason shown is the program's, and not that nobody could be told of it.
TEST(LastLine, WarningThatNoMessageCouldBeWrittenGivesTheReasonThatItCarries) {
  const std::string head =
      "Traceback\nValueError: x\n2026-11-23T15:54:38.123Z warn  termination message not written ";
  EXPECT_EQ(
      LastLine(head + "error=\"open /x: No space left\" reason=\"loss is \\\"nan\\\" = bad\"\n"),
      "loss is \"nan\" = bad");
  EXPECT_EQ(LastLine(head + "error=\"no\" reason=diverged\n"), "diverged");
  EXPECT_EQ(LastLine(head + "error=\"no\" reason=\"first\\nsecond\"\n"), "first second");
  EXPECT_EQ(LastLine(head + "error=\"no\"\n"), "");
}

}  // namespace
}  // namespace lockstep
