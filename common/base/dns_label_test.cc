#include "common/base/dns_label.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DnsLabel, ALetterComesFirstWhereServicesAreNamed) {
  for (const std::string& text : {std::string("a"), std::string("a-1"), std::string(63, 'a')}) {
    EXPECT_TRUE(IsHostLabel(text)) << text;
    EXPECT_TRUE(IsDnsLabel(text)) << text;
  }
  EXPECT_TRUE(IsHostLabel("1a"));
  EXPECT_FALSE(IsDnsLabel("1a"));
}

TEST(DnsLabel, OtherTextIsNone) {
  for (const std::string& text : {std::string(),
                                  std::string("-"),
                                  std::string("-a"),
                                  std::string("a-"),
                                  std::string("A"),
                                  std::string("a.b"),
                                  std::string("a_b"),
                                  std::string(64, 'a')}) {
    EXPECT_FALSE(IsHostLabel(text)) << text;
    EXPECT_FALSE(IsDnsLabel(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep
