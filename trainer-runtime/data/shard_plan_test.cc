#include "trainer-runtime/data/shard_plan.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Every plan of up to 40 samples and batches of up to 13, with both rules: small enough to visit
// whole, and it holds every relation between N, B and W that larger ones have.
template <typename Visit>
void ForEachPlan(Visit visit) {
  for (int64_t samples = 1; samples <= 40; ++samples) {
    for (int64_t batch = 1; batch <= 13; ++batch) {
      for (const RemainderRule rule : {RemainderRule::kKeep, RemainderRule::kDrop}) {
        visit(BatchPlan{samples, batch, rule});
        if (testing::Test::HasFailure()) {
          FAIL() << "samples " << samples << ", batch " << batch << ", drop "
                 << (rule == RemainderRule::kDrop);
        }
      }
    }
  }
}

TEST(ShardPlan, BatchesTileTheEpoch) {
  ForEachPlan([](const BatchPlan& plan) {
    int64_t next = 0;
    for (int64_t b = 0; b < StepsPerDataEpoch(plan); ++b) {
      const PositionRange batch = BatchPositions(plan, b);
      EXPECT_EQ(batch.begin, next);
      EXPECT_GT(batch.size(), 0);
      next = batch.end;
    }
    EXPECT_EQ(next, SamplesPerDataEpoch(plan));
  });
}

TEST(ShardPlan, RemainderRuleDecidesWhatIsLeftOut) {
  EXPECT_EQ(StepsPerDataEpoch({10, 4, RemainderRule::kKeep}), 3);
  EXPECT_EQ(SamplesPerDataEpoch({10, 4, RemainderRule::kKeep}), 10);
  EXPECT_EQ(BatchPositions({10, 4, RemainderRule::kKeep}, 2), (PositionRange{8, 10}));
  EXPECT_EQ(StepsPerDataEpoch({10, 4, RemainderRule::kDrop}), 2);
  EXPECT_EQ(SamplesPerDataEpoch({10, 4, RemainderRule::kDrop}), 8);
  EXPECT_EQ(StepsPerDataEpoch({3, 4, RemainderRule::kDrop}), 0);
}

TEST(ShardPlan, SlicesOfAllWorldSizesTileEveryBatch) {
  ForEachPlan([](const BatchPlan& plan) {
    for (int world_size = 1; world_size <= 7; ++world_size) {
      for (int64_t b = 0; b < StepsPerDataEpoch(plan); ++b) {
        const PositionRange batch = BatchPositions(plan, b);
        int64_t next = batch.begin;
        for (int rank = 0; rank < world_size; ++rank) {
          const PositionRange slice = RankSlice(batch, rank, world_size);
          EXPECT_EQ(slice.begin, next) << "overlap or gap before rank " << rank;
          EXPECT_GE(slice.size(), batch.size() / world_size);
          EXPECT_LE(slice.size(), batch.size() / world_size + 1);
          next = slice.end;
        }
        EXPECT_EQ(next, batch.end);
      }
    }
  });
}

TEST(ShardPlan, CursorAtEqualsRepeatedAdvance) {
  ForEachPlan([](const BatchPlan& plan) {
    if (StepsPerDataEpoch(plan) == 0) {
      return;
    }
    DataCursor cursor;
    for (int64_t step = 0; step < 3 * StepsPerDataEpoch(plan) + 1; ++step) {
      EXPECT_EQ(CursorAt(plan, step), cursor) << "step " << step;
      cursor = Advance(plan, cursor);
    }
  });
}

TEST(ShardPlanDeathTest, BatchBeyondTheEpochIsABrokenInvariant) {
  EXPECT_DEATH(BatchPositions({10, 4, RemainderRule::kKeep}, 3), "batch 3 of 3");
  EXPECT_DEATH(RankSlice({0, 4}, 2, 2), "rank 2 of 2");
}

}  // namespace
}  // namespace lockstep::runtime
