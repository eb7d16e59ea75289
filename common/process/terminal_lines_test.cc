#include "common/process/terminal_lines.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TimePoint kStart{std::chrono::seconds(100)};

// Feeds `bytes` in blocks of `block` bytes, all at one moment.
std::vector<std::string> Feed(std::string_view bytes, std::size_t block, std::size_t bytes_max) {
  TerminalLines lines(bytes_max);
  std::vector<std::string> seen;
  const auto sink = [&seen](std::string_view line) { seen.emplace_back(line); };
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    lines.Append(bytes.substr(at, block), kStart, sink);
  }
  lines.Finish(sink);
  return seen;
}

TEST(TerminalLines, OutputDoesNotDependOnHowBytesArrive) {
  for (std::size_t block = 1; block < 12; ++block) {
    EXPECT_THAT(Feed("one\n\ntwo\nend", block, 100), ElementsAre("one", "", "two", "end"));
    EXPECT_THAT(Feed("abcdefgh\nabc\nabcd", block, 3),
                ElementsAre("abc", "def", "gh", "abc", "abc", "d"));
    EXPECT_THAT(Feed("1 %\r2 %\r3 %\r\nend\r", block, 100), ElementsAre("1 %", "3 %", "end"));
  }
  EXPECT_THAT(Feed("", 1, 10), IsEmpty());
}

TEST(TerminalLines, EndOfLineOfOtherSystemsIsOneEnd) {
  EXPECT_THAT(Feed("one\r\ntwo\r\n", 3, 100), ElementsAre("one", "two"));
}

// An hour of a progress bar, ten states a second: a line every five seconds and the last state.
TEST(TerminalLines, OverwrittenStatesAreRateLimitedAndTheLastIsKept) {
  TerminalLines lines(100);
  std::vector<std::string> seen;
  const auto sink = [&seen](std::string_view line) { seen.emplace_back(line); };
  const int states = 36'000;
  for (int state = 0; state < states; ++state) {
    lines.Append("\rstate " + std::to_string(state), kStart + state * milliseconds(100), sink);
  }
  lines.Append("\n", kStart + states * milliseconds(100), sink);
  EXPECT_EQ(seen.size(), 721U);
  EXPECT_EQ(seen.front(), "state 0");
  EXPECT_EQ(seen[1], "state 50");
  EXPECT_EQ(seen.back(), "state 35999");
}

}  // namespace
}  // namespace lockstep
