#include "trainer-runtime/strategy/parameter_server/variable_shards.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using Pieces = std::vector<VariablePiece>;

// Every element of every variable in exactly one piece, and no piece below the limit but whole
// small variables.
void ExpectCovered(const std::vector<int64_t>& counts, int shard_count, int64_t bytes_min) {
  SCOPED_TRACE(std::to_string(shard_count) + " shards of at least " + std::to_string(bytes_min));
  const std::vector<VariableShard> shards = PlanVariableShards(counts, shard_count, bytes_min);
  ASSERT_EQ(shards.size(), static_cast<std::size_t>(shard_count));
  Pieces all;
  for (const VariableShard& shard : shards) {
    all.insert(all.end(), shard.pieces.begin(), shard.pieces.end());
  }
  std::sort(all.begin(), all.end(), [](const VariablePiece& one, const VariablePiece& other) {
    return std::pair(one.variable, one.element_offset) <
           std::pair(other.variable, other.element_offset);
  });
  std::vector<int64_t> seen(counts.size(), 0);
  for (const VariablePiece& piece : all) {
    int64_t& next = seen[static_cast<std::size_t>(piece.variable)];
    ASSERT_EQ(piece.element_offset, next);
    ASSERT_GT(piece.element_count, 0);
    const bool is_whole = piece.element_count == counts[static_cast<std::size_t>(piece.variable)];
    ASSERT_TRUE(is_whole || piece.element_count * 4 >= bytes_min);
    next += piece.element_count;
  }
  ASSERT_EQ(seen, counts);
}

TEST(PlanVariableShards, EveryElementIsInOnePieceForAllSmallModels) {
  for (int64_t first = 0; first <= 12; ++first) {
    for (int64_t second = 0; second <= 12; ++second) {
      for (int shard_count = 1; shard_count <= 5; ++shard_count) {
        for (const int64_t bytes_min : {0, 1, 8, 16, 100}) {
          ExpectCovered({first, second, 3}, shard_count, bytes_min);
        }
      }
    }
  }
}

TEST(PlanVariableShards, EqualVariablesGoRoundInTurn) {
  const std::vector<VariableShard> shards = PlanVariableShards({8, 8, 8, 8}, 2, 64);

  EXPECT_EQ(shards[0].pieces, (Pieces{{0, 0, 8}, {2, 0, 8}}));
  EXPECT_EQ(shards[1].pieces, (Pieces{{1, 0, 8}, {3, 0, 8}}));
}

TEST(PlanVariableShards, LargeVariableIsCutAndSmallOnesFillUpTheLightestShard) {
  const std::vector<VariableShard> shards = PlanVariableShards({5, 101}, 2, 16);

  EXPECT_EQ(shards[0].pieces, (Pieces{{1, 0, 51}}));
  EXPECT_EQ(shards[1].pieces, (Pieces{{0, 0, 5}, {1, 51, 50}}));
  EXPECT_EQ(shards[1].element_count(), 55);
}

TEST(PlanVariableShards, MoreShardsThanElementsLeavesShardsEmpty) {
  const std::vector<VariableShard> shards = PlanVariableShards({2}, 3, 0);

  EXPECT_EQ(shards[0].element_count(), 1);
  EXPECT_EQ(shards[1].element_count(), 1);
  EXPECT_TRUE(shards[2].pieces.empty());
}

TEST(VariableShards, WhatIsGatheredAndScatteredIsTheWholeBuffer) {
  const std::vector<int64_t> counts{5, 0, 11, 3};
  const std::vector<int64_t> offsets = VariableOffsets(counts);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 5, 5, 16, 19}));
  std::vector<float> all(19);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<float>(i);
  }
  std::vector<float> back(all.size(), -1);
  for (const VariableShard& shard : PlanVariableShards(counts, 3, 8)) {
    ScatterShard(shard, offsets, GatherShard(shard, offsets, all), back);
  }

  EXPECT_EQ(back, all);
}

}  // namespace
}  // namespace lockstep::runtime
