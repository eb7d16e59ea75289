#include "operator/api/job/variable_references.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

struct Case {
  const char* text;
  const char* expanded;
};

// The cases of Kubernetes' own test of the rule, and a few between them.
TEST(ExpandReferences, AsAKubeletDoesIt) {
  const std::map<std::string, std::string> variables = {
      {"VAR_A", "A"}, {"VAR_B", "B"}, {"VAR_C", "C"}, {"VAR_REF", "$(VAR_A)"}, {"VAR_EMPTY", ""}};
  constexpr Case kCases[] = {
      {"", ""},
      {"plain", "plain"},
      {"$(VAR_A)", "A"},
      {"___$(VAR_B)___", "___B___"},
      {"$(VAR_A)$(VAR_B)-$(VAR_C)", "AB-C"},
      {"$(VAR_REF)", "$(VAR_A)"},
      {"x$(VAR_EMPTY)y", "xy"},
      {"$$(VAR_A)", "$(VAR_A)"},
      {"$$$(VAR_A)", "$A"},
      {"$$$$(VAR_A)", "$$(VAR_A)"},
      {"f000-$$VAR_A", "f000-$VAR_A"},
      {"$(VAR_DNE)", "$(VAR_DNE)"},
      {"$()", "$()"},
      {"$VAR_A", "$VAR_A"},
      {"--$(VAR_A", "--$(VAR_A"},
      {"$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"},
      {"foo$", "foo$"},
      {"foo$$", "foo$"},
      {"$", "$"},
      {"$?_boo_$!(VAR_A)", "$?_boo_$!(VAR_A)"},
      {"$((VAR_A))", "$((VAR_A))"},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(ExpandReferences(one.text, variables).value(), one.expanded) << one.text;
  }
}

// Variables that each name the one before twice.
TEST(ExpandReferences, EndsAtItsBound) {
  std::map<std::string, std::string> variables = {{"V", std::string(kExpandedBytesMax / 2, 'x')}};
  EXPECT_EQ(ExpandReferences("$(V)$(V)", variables).value().size(), kExpandedBytesMax);

  const Result<std::string> more = ExpandReferences("$(V)$(V)$(V)", variables);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(more.error().message(),
            "longer than 65536 bytes, the limit, after each $(NAME) is replaced");
}

TEST(InlineReferences, LeavesTextThatAnotherContainerReadsTheSame) {
  const std::map<std::string, std::string> known = {{"BASE", "/data"}, {"PRICE", "5$$"}};
  constexpr Case kCases[] = {
      {"$(BASE)/x", "/data/x"},
      {"$$(BASE)", "$$(BASE)"},
      {"$$$(BASE)", "$$/data"},
      {"$(PRICE)(BASE)", "5$$(BASE)"},
      {"$BASE", "$$BASE"},
      {"a$", "a$$"},
      {"$(BASE", "$$(BASE"},
      {"$(OTHER)-$(BASE)", "$(OTHER)-/data"},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(InlineReferences(one.text, known).text, one.expanded) << one.text;
  }
  EXPECT_FALSE(InlineReferences("$$(BASE) $B", known).has_changed);
}

TEST(InlineReferences, WhatIsNotKnownOrTooLongIsTold) {
  const std::map<std::string, std::string> known = {{"V", std::string(kExpandedBytesMax / 2, 'x')}};
  const InlinedText inlined = InlineReferences("$(A)$(V) $(B)$(V)", known);
  EXPECT_EQ(inlined.unknown, (std::vector<std::string>{"A", "B", "V"}));
  EXPECT_TRUE(inlined.has_changed);
  EXPECT_EQ(inlined.text.size(), kExpandedBytesMax / 2 + std::string("$(A) $(B)$(V)").size());
}

}  // namespace
}  // namespace lockstep::control
