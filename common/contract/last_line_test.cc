#include "common/contract/last_line.h"

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
  EXPECT_EQ(LastLine("2026-11-23T15:54:38.123Z info  all ranks met rank=0\n"), "");
  EXPECT_EQ(LastLine("2026-11-23T15:54:38.123Z debug pod started\n"), "");
  EXPECT_EQ(LastLine("2026-11-23T15:54:38.123Z error training failed\n"),
            "2026-11-23T15:54:38.123Z error training failed");
  EXPECT_EQ(LastLine("2026-11-23 info of another program\n"), "2026-11-23 info of another program");
}

}  // namespace
}  // namespace lockstep
