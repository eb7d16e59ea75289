#include "operator/api/fields/labels.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(IsLabelValue, RulesAreTheApiServers) {
  for (const std::string& good : {std::string(),
                                  std::string("a"),
                                  std::string("A.b_c-9"),
                                  std::string("0"),
                                  std::string(63, 'a')}) {
    EXPECT_TRUE(IsLabelValue(good)) << good;
  }
  for (const std::string& bad : {std::string("a b"),
                                 std::string("-a"),
                                 std::string("a."),
                                 std::string("a/b"),
                                 std::string("\xC3\xBC"),
                                 std::string(64, 'a')}) {
    EXPECT_FALSE(IsLabelValue(bad)) << bad;
  }
}

TEST(IsLabelKey, RulesAreTheApiServers) {
  for (const std::string& good : {std::string("a"),
                                  std::string("Team_1"),
                                  std::string("example.com/a"),
                                  std::string("9/a"),
                                  std::string(63, 'a') + "/" + std::string(63, 'b')}) {
    EXPECT_TRUE(IsLabelKey(good)) << good;
  }
  for (const std::string& bad : {std::string(),
                                 std::string("/a"),
                                 std::string("a/"),
                                 std::string("a/b/c"),
                                 std::string("Example.com/a"),
                                 std::string("a..b/c"),
                                 std::string("a-/b"),
                                 std::string("a b"),
                                 std::string(254, 'a') + "/b"}) {
    EXPECT_FALSE(IsLabelKey(bad)) << bad;
  }
}

}  // namespace
}  // namespace lockstep::control
