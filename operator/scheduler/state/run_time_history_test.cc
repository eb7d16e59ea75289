#include "operator/scheduler/state/run_time_history.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

EndedRun Ended(int64_t ended_at, int64_t run_seconds) {
  return {WallTime{seconds(ended_at)}, "run-" + std::to_string(ended_at), seconds(run_seconds)};
}

PastRuns Of(int64_t count, int64_t shortest, int64_t longest) {
  return {count, seconds(shortest), seconds(longest)};
}

TEST(RunTimeHistory, NextIsThoughtToRunAsLongAsTheLongestOfTheLast) {
  RunTimeHistory history({.runs_max = 3});
  EXPECT_EQ(history.Recall({"a"}), PastRuns());
  history.Learn({"a"}, Ended(1, 900));
  EXPECT_EQ(history.Recall({"a"}), PastRuns()) << "one run alone tells nothing";
  history.Learn({"a"}, Ended(2, 40));
  EXPECT_EQ(history.Recall({"a"}), Of(2, 40, 900));
  history.Learn({"a"}, Ended(3, 60));
  history.Learn({"a"}, Ended(4, 50));
  EXPECT_EQ(history.Recall({"a"}), Of(3, 40, 60)) << "the first is forgotten";
}

TEST(RunTimeHistory, NarrowestKindOfWhichEnoughIsKnownCounts) {
  RunTimeHistory history({});
  history.Learn({"narrow", "wide"}, Ended(1, 10));
  history.Learn({"other", "wide"}, Ended(2, 70));
  EXPECT_EQ(history.Recall({"narrow", "wide"}), Of(2, 10, 70));
  history.Learn({"narrow", "wide"}, Ended(3, 12));
  EXPECT_EQ(history.Recall({"narrow", "wide"}), Of(2, 10, 12));
}

TEST(RunTimeHistory, OrderInWhichRunsBecomeKnownIsNothing) {
  RunTimeHistory history({.runs_max = 2});
  for (const int64_t ended_at : {3, 1, 2, 3, 1, 3}) {
    history.Learn({"a"}, Ended(ended_at, 10 * ended_at));
  }
  EXPECT_EQ(history.Recall({"a"}), Of(2, 20, 30));
}

TEST(RunTimeHistory, RunsAreRoundedUpToSecondsAndNoneIsZero) {
  RunTimeHistory history({});
  history.Learn({"a"}, {WallTime{seconds(1)}, "x", milliseconds(0)});
  history.Learn({"a"}, {WallTime{seconds(2)}, "y", milliseconds(0)});
  EXPECT_EQ(history.Recall({"a"}), Of(2, 0, 1));
  history.Learn({"a"}, {WallTime{seconds(3)}, "z", milliseconds(1'001)});
  EXPECT_EQ(history.Recall({"a"}), Of(3, 0, 2));
}

TEST(RunTimeHistory, KindsOfWhichNobodyHasRunForLongestAreForgotten) {
  RunTimeHistory history({.count_min = 1, .kinds_max = 2});
  history.Learn({"a"}, Ended(1, 10));
  history.Learn({"b"}, Ended(2, 20));
  history.Learn({"a"}, Ended(3, 30));
  history.Learn({"c"}, Ended(4, 40));
  EXPECT_EQ(history.kind_count(), 2U);
  EXPECT_EQ(history.Recall({"a"}).count, 2);
  EXPECT_EQ(history.Recall({"b"}).count, 0);
  EXPECT_EQ(history.Recall({"c"}).count, 1);
  history.Learn({"d"}, Ended(2, 20));
  EXPECT_EQ(history.Recall({"d"}).count, 0) << "its run is older than all that are known";
}

TEST(PastRuns, AreToldInTheLargestUnitOfWhichThereAreTwo) {
  EXPECT_EQ(ToText(Of(3, 2'460, 2'640)), "the last 3 runs of similar jobs took 41 to 44 min");
  EXPECT_EQ(ToText(Of(1, 119, 119)), "the last 1 run of similar jobs took 119 s");
  EXPECT_EQ(ToText(Of(2, 120, 121)), "the last 2 runs of similar jobs took 2 min");
  EXPECT_EQ(ToText(Of(5, 1'000, 7'200)), "the last 5 runs of similar jobs took 17 min to 2 h");
  EXPECT_EQ(ToText(Of(5, 86'400, 3 * 86'400)),
            "the last 5 runs of similar jobs took 24 h to 3 days");
  EXPECT_EQ(ToText(Of(3, 8, 50 * 3600)), "the last 3 runs of similar jobs took 8 s to 2.1 days");
  EXPECT_EQ(ToText(Of(2, 25 * 3600, 60 * 3600)),
            "the last 2 runs of similar jobs took 25 h to 2.5 days");
  EXPECT_EQ(ToText(Of(2, 60 * 3600, 20 * 86'400)),
            "the last 2 runs of similar jobs took 2.5 to 20 days");
}

}  // namespace
}  // namespace lockstep::control
