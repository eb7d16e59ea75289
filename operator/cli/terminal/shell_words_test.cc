#include "operator/cli/terminal/shell_words.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

// "[python3][a b.py]", or the error.
std::string Told(std::string_view text) {
  const auto words = SplitShellWords(text);
  if (!words.ok()) {
    return words.error().message();
  }
  std::string told;
  for (const std::string& word : *words) {
    told += "[" + word + "]";
  }
  return told;
}

TEST(SplitShellWords, BlanksPartWordsAndQuotesKeepThemTogether) {
  EXPECT_EQ(Told(""), "");
  EXPECT_EQ(Told("  python3\tt.py --lr  1 "), "[python3][t.py][--lr][1]");
  EXPECT_EQ(Told("python3 'a b.py'"), "[python3][a b.py]");
  EXPECT_EQ(Told("python3 a\" b\".py"), "[python3][a b.py]");
  EXPECT_EQ(Told("a '' b"), "[a][][b]");
}

TEST(SplitShellWords, BackslashTakesALetterAsItIs) {
  EXPECT_EQ(Told("a\\ b"), "[a b]");
  EXPECT_EQ(Told("'a\\b'"), "[a\\b]");
  EXPECT_EQ(Told("\"say \\\"hi\\\" \\n\""), "[say \"hi\" \\n]");
}

TEST(SplitShellWords, NothingIsExpanded) {
  EXPECT_EQ(Told("$HOME/*.py ~"), "[$HOME/*.py][~]");
}

TEST(QuoteShellWord, ShellReadsItAsOneWordAgain) {
  EXPECT_EQ(QuoteShellWord("/runs/a-1.yaml"), "/runs/a-1.yaml");
  EXPECT_EQ(QuoteShellWord("Anna's two"), "'Anna'\\''s two'");
  for (const std::string text : {"/runs/a-1.yaml", "Anna's two", "$HOME/*", "a\\b\"c"}) {
    EXPECT_EQ(Told(QuoteShellWord(text)), "[" + text + "]");
  }
}

TEST(SplitShellWords, QuoteOrBackslashWithoutItsEndIsAnError) {
  EXPECT_EQ(Told("python3 'a b.py"), "a quote ' found, expected a second one to close it");
  EXPECT_EQ(Told("\"a"), "a quote \" found, expected a second one to close it");
  EXPECT_EQ(Told("a\\"), "the last character is a backslash, expected a character after it");
}

}  // namespace
}  // namespace lockstep::control
