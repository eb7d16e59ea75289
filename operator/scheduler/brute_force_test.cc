#include "operator/scheduler/testing/brute_force.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

// More of them: bench_scheduler --brute-force 20000 (tests/bench/README.md).
TEST(BruteForce, SmallClustersAreDecidedAsByTryingEverything) {
  BruteForceTally tally;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    ASSERT_EQ(WrongInCase(seed, &tally), "") << "seed " << seed;
  }
  // Every answer is well represented, or the comparison says little.
  EXPECT_GT(tally.granted, 1000);
  EXPECT_GT(tally.refused, 1000);
  EXPECT_GT(tally.over_quota, 100);
  EXPECT_GT(tally.out_of_turn, 10);
  EXPECT_GT(tally.evicted, 50);
}

}  // namespace
}  // namespace lockstep::control
