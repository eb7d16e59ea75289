#include "operator/reconcile/failure/first_end.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

constexpr ExitCause kKilled = ExitCause::kKilled;
constexpr ExitCause kExit = ExitCause::kProgramExit;
constexpr ExitCause kCrash = ExitCause::kCrash;

ProgramEnd EndAt(ExitCause cause, int64_t ms) {
  return {cause, TimePoint(milliseconds(ms))};
}

ProgramEnd Untold(ExitCause cause) {
  return {cause, std::nullopt};
}

struct EndRow {
  const char* what;
  std::vector<ProgramEnd> ends;
  std::vector<std::size_t> first;
  std::optional<Duration> all_within = std::nullopt;
};

TEST(FirstEnd, EarliestIsNamedWhereItIsKnownAndElseAllThatItMayBe) {
  const std::vector<EndRow> rows = {
      {"one alone", {EndAt(kExit, 5)}, {0}},
      {"one alone, of an earlier release", {Untold(kExit)}, {0}},
      {"the earliest", {EndAt(kExit, 500), EndAt(kExit, 100), EndAt(kExit, 200)}, {1}},
      {"just outside the doubt", {EndAt(kExit, 111), EndAt(kExit, 100)}, {1}},
      {"within the doubt", {EndAt(kExit, 110), EndAt(kExit, 100), EndAt(kExit, 500)}, {0, 1}},
      {"the same moment", {EndAt(kExit, 100), EndAt(kCrash, 100)}, {0, 1}},
      {"killed, and an echo that was seen sooner", {EndAt(kExit, 100), EndAt(kKilled, 1100)}, {1}},
      {"killed, and clearly after", {EndAt(kExit, 100), EndAt(kKilled, 1101)}, {0}},
      {"both killed", {EndAt(kKilled, 103), EndAt(kKilled, 100)}, {0, 1}, milliseconds(3)},
      {"both killed, just within the doubt",
       {EndAt(kKilled, 100), EndAt(kKilled, 110), EndAt(kKilled, 111)},
       {0, 1},
       milliseconds(10)},
      {"both killed, and an echo between",
       {EndAt(kKilled, 100), EndAt(kExit, 101), EndAt(kKilled, 102)},
       {0, 2},
       milliseconds(2)},
      {"killed, and another killed without a time", {EndAt(kKilled, 100), Untold(kKilled)}, {0}},
      {"killed, and another says no time", {Untold(kExit), EndAt(kKilled, 100)}, {1}},
      {"killed without a time", {EndAt(kExit, 100), Untold(kKilled)}, {0, 1}},
      {"nobody says a time", {Untold(kExit), Untold(kCrash)}, {0, 1}},
      {"who says no time may be first",
       {EndAt(kExit, 100), Untold(kExit), EndAt(kExit, 300)},
       {0, 1}},
  };
  for (const EndRow& row : rows) {
    EXPECT_EQ(FirstEnds(row.ends), (FirstEnded{row.first, row.all_within})) << row.what;
  }
}

}  // namespace
}  // namespace lockstep::control
