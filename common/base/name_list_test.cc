#include "common/base/name_list.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(NameList, SaysTheFirstFiveAndHowManyThereAreBeside) {
  EXPECT_EQ(NameList(std::vector<std::string>{}), "");
  EXPECT_EQ(NameList(std::vector<std::string>{"b", "a"}), "b, a");
  EXPECT_EQ(NameList(std::set<std::string>{"e", "d", "c", "b", "a"}), "a, b, c, d, e");
  EXPECT_EQ(NameList(std::vector<std::string>(8, "x")), "x, x, x, x, x and 3 more");
}

}  // namespace
}  // namespace lockstep
