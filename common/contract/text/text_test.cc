#include "common/contract/text/text.h"

#include <string>

#include <gtest/gtest.h>

#include "common/contract/text/problems.h"

namespace lockstep {
namespace {

TEST(IsListed, IsOfWholeWords) {
  for (const char* const word : {"ab", "-c", "d.e"}) {
    EXPECT_TRUE(IsListed(word, "ab -c d.e")) << word;
  }
  for (const char* const word : {"", " ", "a", "b", "c", "ab -c", "e", "d.e "}) {
    EXPECT_FALSE(IsListed(word, "ab -c d.e")) << word;
  }
}

TEST(CutText, KeepsWhatFits) {
  EXPECT_EQ(CutText("", 0), "");
  EXPECT_EQ(CutText("abc", 3), "abc");
}

TEST(CutText, MarksWhatItCut) {
  EXPECT_EQ(CutText("abcdef", 5), "ab...");
  EXPECT_EQ(CutText("abcdef", 3), "...");
  EXPECT_EQ(CutText("abcdef", 0), "...");
}

TEST(CutText, NeverCutsACharacterInTwo) {
  const std::string text = "a\u00e9\u20ac\U0001F600z";  // one, two, three, four and one byte
  const std::string expected[] = {"...", "a...", "a...", "a\u00e9...", "a\u00e9...", "a\u00e9..."};
  for (std::size_t kept = 0; kept < 6; ++kept) {
    EXPECT_EQ(CutText(text, kept + 3), expected[kept]) << kept;
  }
}

TEST(CombineProblems, KeepsTheFirstAndTellsTheOthers) {
  const Error error =
      CombineProblems({Problem("a", "1", "2"), Problem("b", Quoted("x\"y"), "a word")});
  EXPECT_EQ(error.field(), "a");
  EXPECT_EQ(error.ToString(), "a: 1 found, expected 2; b: \"x\\\"y\" found, expected a word");
}

TEST(CombineProblems, CountsWhatItDoesNotTell) {
  const Error error = CombineProblems(std::vector<Error>(20, Problem("a", "1", "2")));
  EXPECT_TRUE(error.message().ends_with("; and 12 more")) << error.message();
}

}  // namespace
}  // namespace lockstep
