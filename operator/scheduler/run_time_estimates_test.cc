#include "operator/scheduler/run_time_estimates.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr RunTimeEstimates::Options kOptions = {
    .quantile_percent = 75, .count_min = 4, .before_any = hours(24)};

void LearnEach(const RunTimeKey& key,
               std::initializer_list<int64_t> run_seconds,
               RunTimeEstimates* estimates) {
  for (const int64_t one : run_seconds) {
    estimates->Learn(key, seconds(one));
  }
}

TEST(RunTimeEstimates, SoLongThatTheShareHasEnded) {
  RunTimeEstimates estimates(kOptions);
  LearnEach({"ann", 1}, {4, 16, 64, 1024}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(64));
}

TEST(RunTimeEstimates, RoundsUpToSteps) {
  RunTimeEstimates estimates(kOptions);
  LearnEach({"ann", 1}, {65, 65, 65, 65}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), milliseconds(64 * 1'414));
}

TEST(RunTimeEstimates, FewOfOnesOwnMakeRoomForOthers) {
  RunTimeEstimates estimates(kOptions);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), hours(24));
  LearnEach({"bob", 8}, {256, 256, 256, 256}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(256));  // of all
  LearnEach({"bob", 1}, {16, 16, 16, 16}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(16));  // of the size
  LearnEach({"ann", 1}, {4, 4, 4}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(16));
  LearnEach({"ann", 1}, {4}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(4));  // one's own
}

TEST(RunTimeEstimates, OldRunTimesFade) {
  RunTimeEstimates estimates(kOptions);
  for (int i = 0; i < 1'000; ++i) {
    estimates.Learn({"ann", 1}, seconds(1024));
  }
  for (int i = 0; i < 2'000; ++i) {
    estimates.Learn({"ann", 1}, seconds(4));
  }
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(4));
}

TEST(RunTimeEstimates, UsersAboveTheBoundShareTheEstimateOfTheirSize) {
  RunTimeEstimates estimates({.quantile_percent = 75, .count_min = 1, .keys_max = 1});
  LearnEach({"ann", 1}, {4}, &estimates);
  LearnEach({"bob", 1}, {1024}, &estimates);
  LearnEach({"cem", 1}, {16, 16, 16}, &estimates);
  EXPECT_EQ(estimates.Estimate({"ann", 1}), seconds(4));
  EXPECT_EQ(estimates.Estimate({"bob", 1}), seconds(16));
}

TEST(RunTimeEstimates, LongestHasNoEnd) {
  RunTimeEstimates estimates(kOptions);
  for (int i = 0; i < 4; ++i) {
    estimates.Learn({"ann", 1}, hours(24 * 366 * 100));
  }
  EXPECT_GT(estimates.Estimate({"ann", 1}), hours(24 * 366));
}

}  // namespace
}  // namespace lockstep::control
