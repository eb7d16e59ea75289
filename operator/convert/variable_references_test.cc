#include "operator/convert/variable_references.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(InlineReferences, AreReplacedAsAKubeletWouldAndStayLettersAfterIt) {
  const std::map<std::string, std::string> known = {{"BASE", "/data"}, {"PRICE", "5$$"}};
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"$(BASE)/x", "/data/x"},
      {"$(BASE)$(BASE)", "/data/data"},
      {"$$(BASE)", "$$(BASE)"},
      {"$$$(BASE)", "$$/data"},
      {"$(PRICE)(BASE)", "5$$(BASE)"},
      {"$BASE", "$$BASE"},
      {"a$", "a$$"},
      {"$(BASE", "$$(BASE"},
      {"$()", "$()"},
      {"$(OTHER)-$(BASE)", "$(OTHER)-/data"},
  };
  for (const auto& [value, expected] : cases) {
    EXPECT_EQ(InlineReferences(value, known).text, expected) << value;
  }
}

TEST(InlineReferences, WhatWouldBeTooLongIsNotKnown) {
  const std::map<std::string, std::string> known = {{"V", std::string(kInlinedBytesMax / 2, 'x')}};
  EXPECT_TRUE(InlineReferences("$(V)$(V)", known).unknown.empty());

  const InlinedValue more = InlineReferences("$(V)$(V)$(V)", known);
  EXPECT_EQ(more.unknown, (std::vector<std::string>{"$(V)"}));
  EXPECT_EQ(more.text.size(), kInlinedBytesMax + 4);
}

TEST(InlineReferences, WhatIsNotKnownIsTold) {
  const InlinedValue inlined = InlineReferences("$(A) $(BASE) $(B)", {{"BASE", "b"}});
  EXPECT_EQ(inlined.unknown, (std::vector<std::string>{"$(A)", "$(B)"}));
  EXPECT_TRUE(inlined.has_changed);
  EXPECT_FALSE(InlineReferences("$$(A) $B", {}).has_changed);
}

}  // namespace
}  // namespace lockstep::control
