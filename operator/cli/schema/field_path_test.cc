#include "operator/cli/schema/field_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

TEST(ParseFieldPath, FieldsAndElementsAreSteps) {
  using Kind = FieldStep::Kind;
  EXPECT_EQ(ParseFieldPath("spec.roles[0].replicas").value(),
            (FieldPath{{Kind::kField, "spec"},
                       {Kind::kField, "roles"},
                       {Kind::kElement, "0"},
                       {Kind::kField, "replicas"}}));
}

TEST(ParseFieldPath, PathIsWrittenAsItWasRead) {
  for (const char* text : {"a", "spec.roles[worker].gpus", "a[0][1].b"}) {
    EXPECT_EQ(FormatFieldPath(ParseFieldPath(text).value()), text);
  }
}

TEST(ParseFieldPath, BackslashTakesTheNextLetterAsItIs) {
  EXPECT_EQ(ParseFieldPath("labels.example\\.com/team").value().back().name, "example.com/team");
}

TEST(ParseFieldPath, BrokenPathsAreToldWhy) {
  struct Case {
    const char* text;
    const char* what;
  };

  for (const Case& one : {Case{"", "the path is empty"},
                          Case{"a.", "the name of a field is missing"},
                          Case{"a..b", "the name of a field is missing"},
                          Case{"[0]", "the path is empty"},
                          Case{"a[]", "a bracket is empty or not closed"},
                          Case{"a[0", "a bracket is empty or not closed"},
                          Case{"a[0]b", "a dot is missing"}}) {
    const auto path = ParseFieldPath(one.text);
    ASSERT_FALSE(path.ok()) << one.text;
    EXPECT_THAT(path.error().message(), HasSubstr(one.what)) << one.text;
  }
}

}  // namespace
}  // namespace lockstep::control
