#include "trainer-runtime/cmd/ps_epochs.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

std::map<int64_t, StepSums> Used(std::map<int64_t, int64_t> samples) {
  std::map<int64_t, StepSums> sums;
  for (const auto& [data_epoch, count] : samples) {
    sums[data_epoch] = {data_epoch, 1.5, 1, count};
  }
  return sums;
}

TEST(StandingOf, DataEpochIsOverWhenAllWorkersHavePushedTheirSharesOfIt) {
  const auto sums = Used({{4, 900}, {5, 864}});
  EXPECT_EQ(StandingOf(4, 900, sums), EpochStanding::kOver);
  EXPECT_EQ(StandingOf(5, 900, sums), EpochStanding::kUnderWay);
  EXPECT_EQ(StandingOf(6, 900, sums), EpochStanding::kUnderWay);
  EXPECT_EQ(StandingOf(0, 900, {}), EpochStanding::kUnderWay);
}

TEST(StandingOf, DataEpochBelowAllThatAreKeptIsForgotten) {
  EXPECT_EQ(StandingOf(3, 900, Used({{4, 900}, {5, 864}})), EpochStanding::kForgotten);
}

}  // namespace
}  // namespace lockstep::runtime
