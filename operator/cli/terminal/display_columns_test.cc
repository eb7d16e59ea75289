#include "operator/cli/terminal/display_columns.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(DisplayColumns, LettersCountAndNotBytes) {
  EXPECT_EQ(DisplayColumns(""), 0U);
  EXPECT_EQ(DisplayColumns("mnist"), 5U);
  EXPECT_EQ(DisplayColumns("übung"), 5U);
  EXPECT_EQ(DisplayColumns("e\xCC\x81t\xCC\x81"), 2U);  // accents of their own
  EXPECT_EQ(DisplayColumns("学习"), 4U);
  EXPECT_EQ(DisplayColumns("🚀"), 2U);
}

TEST(DisplayColumns, BytesThatAreNoTextTakeOneEach) {
  EXPECT_EQ(DisplayColumns("\xFF\x80"), 2U);
  EXPECT_EQ(DisplayColumns("a\xE5\xAD"), 3U);  // cut
}

}  // namespace
}  // namespace lockstep::control
