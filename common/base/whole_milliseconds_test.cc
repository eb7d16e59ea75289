#include "common/base/whole_milliseconds.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(WholeMilliseconds, AreRoundedUpAndAtLeastOne) {
  EXPECT_EQ(WholeMilliseconds(Duration(2'000'001)), "3 ms");
  EXPECT_EQ(WholeMilliseconds(std::chrono::milliseconds(3)), "3 ms");
  EXPECT_EQ(WholeMilliseconds(Duration::zero()), "1 ms");
}

}  // namespace
}  // namespace lockstep
