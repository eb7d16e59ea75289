#include "common/base/printable.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(PrintableTest, ControlCharactersAreShown) {
  EXPECT_EQ(Printable("a\x1b[31mb\tc\x07\n\xc3\xa4"), "a\\x1b[31mb\tc\\x07\\x0a\xc3\xa4");
}

}  // namespace
}  // namespace lockstep
