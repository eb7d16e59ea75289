#include "operator/reconcile/detect/first_end.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

constexpr ExitCause kKilled = ExitCause::kKilled;
constexpr ExitCause kExit = ExitCause::kProgramExit;
constexpr ExitCause kCrash = ExitCause::kCrash;

ProgramEnd At(ExitCause cause, int64_t ms) {
  return {cause, TimePoint(milliseconds(ms))};
}

ProgramEnd Untold(ExitCause cause) {
  return {cause, std::nullopt};
}

struct Row {
  const char* what;
  std::vector<ProgramEnd> ends;
  std::vector<std::size_t> first;
  std::optional<Duration> all_within = std::nullopt;
};

TEST(FirstEnd, EarliestIsNamedWhereItIsKnownAndElseAllThatItMayBe) {
  const std::vector<Row> rows = {
      {"one alone", {At(kExit, 5)}, {0}},
      {"one alone, of an earlier release", {Untold(kExit)}, {0}},
      {"the earliest", {At(kExit, 500), At(kExit, 100), At(kExit, 200)}, {1}},
      {"just outside the doubt", {At(kExit, 111), At(kExit, 100)}, {1}},
      {"within the doubt", {At(kExit, 110), At(kExit, 100), At(kExit, 500)}, {0, 1}},
      {"the same moment", {At(kExit, 100), At(kCrash, 100)}, {0, 1}},
      {"killed, and an echo that was seen sooner", {At(kExit, 100), At(kKilled, 1100)}, {1}},
      {"killed, and clearly after", {At(kExit, 100), At(kKilled, 1101)}, {0}},
      {"both killed", {At(kKilled, 103), At(kKilled, 100)}, {0, 1}, milliseconds(3)},
      {"both killed, just within the doubt",
       {At(kKilled, 100), At(kKilled, 110), At(kKilled, 111)},
       {0, 1},
       milliseconds(10)},
      {"both killed, and an echo between",
       {At(kKilled, 100), At(kExit, 101), At(kKilled, 102)},
       {0, 2},
       milliseconds(2)},
      {"killed, and another killed without a time", {At(kKilled, 100), Untold(kKilled)}, {0}},
      {"killed, and another says no time", {Untold(kExit), At(kKilled, 100)}, {1}},
      {"killed without a time", {At(kExit, 100), Untold(kKilled)}, {0, 1}},
      {"nobody says a time", {Untold(kExit), Untold(kCrash)}, {0, 1}},
      {"who says no time may be first", {At(kExit, 100), Untold(kExit), At(kExit, 300)}, {0, 1}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(FirstEnds(row.ends), (FirstEnded{row.first, row.all_within})) << row.what;
  }
}

}  // namespace
}  // namespace lockstep::control
