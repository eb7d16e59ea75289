#include "trainer-runtime/collectives/tcp/broadcast_tree.h"

#include <map>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

std::vector<bool> Holders(std::size_t world_size, const std::vector<std::size_t>& ranks) {
  std::vector<bool> holds(world_size);
  for (const std::size_t rank : ranks) {
    holds[rank] = true;
  }
  return holds;
}

// Levels between `rank` and a holder; more than the world has ranks: there is a circle.
int DepthOf(const BroadcastTree& tree, int rank, int world_size) {
  int depth = 0;
  for (auto parent = tree.ParentOf(rank); parent.has_value() && depth <= world_size;
       parent = tree.ParentOf(*parent)) {
    ++depth;
  }
  return depth;
}

TEST(BroadcastTree, HoldersGetNothing) {
  const BroadcastTree tree(Holders(4, {1, 2}), 1, false);
  EXPECT_FALSE(tree.ParentOf(1).has_value());
  EXPECT_FALSE(tree.ParentOf(2).has_value());
}

TEST(BroadcastTree, HoldersTakeTurnsInServing) {
  const BroadcastTree tree(Holders(4, {0, 1}), 0, false);
  EXPECT_EQ(tree.ParentOf(2), 0);
  EXPECT_EQ(tree.ParentOf(3), 1);
}

TEST(BroadcastTree, FlatOnesComeFromTheRoot) {
  const BroadcastTree tree(Holders(9, {3, 4}), 3, true);
  for (const int rank : {0, 1, 2, 5, 6, 7, 8}) {
    EXPECT_EQ(tree.ParentOf(rank), 3) << rank;
  }
}

TEST(BroadcastTree, NobodyServesMoreThanTwoAndAllAreReached) {
  Prng prng(7);
  for (int round = 0; round < 200; ++round) {
    const int world_size = 2 + static_cast<int>(prng.Below(1023));
    const int root = static_cast<int>(prng.Below(static_cast<uint64_t>(world_size)));
    std::vector<bool> holds(static_cast<std::size_t>(world_size));
    for (std::size_t rank = 0; rank < holds.size(); ++rank) {
      holds[rank] = prng.Below(4) == 0;
    }
    holds[static_cast<std::size_t>(root)] = true;
    const BroadcastTree tree(holds, root, false);
    std::map<int, int> children;
    for (int rank = 0; rank < world_size; ++rank) {
      const auto parent = tree.ParentOf(rank);
      ASSERT_EQ(parent.has_value(), !holds[static_cast<std::size_t>(rank)]);
      ASSERT_LE(DepthOf(tree, rank, world_size), 10);
      ASSERT_LE(parent.has_value() ? ++children[*parent] : 0, BroadcastTree::kChildrenMax);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
