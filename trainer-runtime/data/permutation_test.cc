#include "trainer-runtime/data/permutation.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

std::vector<int64_t> Identity(int64_t count) {
  std::vector<int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return ids;
}

TEST(EpochPermutation, HoldsEverySampleOnce) {
  for (const int64_t count : {0, 1, 2, 3, 97, 1000}) {
    std::vector<int64_t> order = EpochPermutation(7, 3, count, true);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, Identity(count));
  }
}

TEST(EpochPermutation, WithoutShuffleIsTheIdentity) {
  EXPECT_EQ(EpochPermutation(7, 3, 100, false), Identity(100));
}

TEST(EpochPermutation, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(EpochPermutation(7, 3, 100, true), EpochPermutation(7, 3, 100, true));
  std::set<std::vector<int64_t>> orders;
  for (int64_t seed = 0; seed < 8; ++seed) {
    for (int64_t epoch = 0; epoch < 8; ++epoch) {
      orders.insert(EpochPermutation(seed, epoch, 100, true));
    }
  }
  EXPECT_EQ(orders.size(), 64U) << "two pairs of seed and epoch share an order";
}

// Checkpoints outlive a release: the order must not change under them.
TEST(EpochPermutation, KeepsItsValuesAcrossReleases) {
  EXPECT_EQ(EpochPermutation(1, 0, 8, true), (std::vector<int64_t>{3, 2, 4, 0, 6, 1, 7, 5}));
}

// Each sample should stand at the first position about equally often. With 2,400 draws over 6
// samples the expected count is 400 and its standard deviation 18; 100 is above five of them.
TEST(EpochPermutation, FirstPositionIsUniform) {
  std::vector<int> counts(6);
  for (int64_t epoch = 0; epoch < 2400; ++epoch) {
    ++counts[static_cast<std::size_t>(EpochPermutation(1, epoch, 6, true).front())];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 400, 100);
  }
}

}  // namespace
}  // namespace lockstep::runtime
