#include "operator/reconcile/backoff.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

TEST(RollbackDelay, DoublesFromFiveSecondsToFiveMinutesAndStaysThere) {
  const std::vector<int64_t> expected = {5, 10, 20, 40, 80, 160, 300, 300};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(RollbackDelay(static_cast<int64_t>(i) + 1).count(), expected[i]) << i + 1;
  }
  EXPECT_EQ(RollbackDelay(1'000'000'000'000), kRollbackDelayMax);
}

TEST(RestartDelay, FirstIsAtOnceThenDoublesFromOneSecondToHalfAMinute) {
  const std::vector<int64_t> expected = {0, 1, 2, 4, 8, 16, 30, 30};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(RestartDelay(static_cast<int64_t>(i) + 1).count(), expected[i]) << i + 1;
  }
}

}  // namespace
}  // namespace lockstep::control
