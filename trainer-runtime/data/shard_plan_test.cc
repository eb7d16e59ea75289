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
    int64_t steps_left = StepsPerDataEpoch(plan);
    for (; HasBatchAt(plan, next); --steps_left) {
      EXPECT_EQ(StepsLeftInDataEpoch(plan, next), steps_left);
      const PositionRange batch = BatchAt(plan, next);
      EXPECT_EQ(batch.begin, next);
      EXPECT_GT(batch.size(), 0);
      next = batch.end;
    }
    EXPECT_EQ(steps_left, 0);
    EXPECT_EQ(next, SamplesPerDataEpoch(plan));
  });
}

TEST(ShardPlan, RemainderRuleDecidesWhatIsLeftOut) {
  EXPECT_EQ(StepsPerDataEpoch({10, 4, RemainderRule::kKeep}), 3);
  EXPECT_EQ(SamplesPerDataEpoch({10, 4, RemainderRule::kKeep}), 10);
  EXPECT_EQ(BatchAt({10, 4, RemainderRule::kKeep}, 8), (PositionRange{8, 10}));
  EXPECT_FALSE(HasBatchAt({10, 4, RemainderRule::kDrop}, 8));
  EXPECT_EQ(StepsPerDataEpoch({10, 4, RemainderRule::kDrop}), 2);
  EXPECT_EQ(SamplesPerDataEpoch({10, 4, RemainderRule::kDrop}), 8);
  EXPECT_EQ(StepsPerDataEpoch({3, 4, RemainderRule::kDrop}), 0);
}

TEST(ShardPlan, SlicesOfAllWorldSizesTileEveryBatch) {
  ForEachPlan([](const BatchPlan& plan) {
    for (int world_size = 1; world_size <= 7; ++world_size) {
      for (int64_t begin = 0; HasBatchAt(plan, begin); begin += plan.global_batch_size) {
        const PositionRange batch = BatchAt(plan, begin);
        int64_t next = batch.begin;
        for (int rank = 0; rank < world_size; ++rank) {
          const PositionRange slice = SliceOf(batch, rank, world_size);
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

// The cursor before step `step_index`, computed from nothing.
DataCursor CursorAt(const BatchPlan& plan, int64_t step_index) {
  const int64_t steps = StepsPerDataEpoch(plan);
  DataCursor cursor;
  cursor.data_epoch = step_index / steps;
  // All batches of an epoch but its last are full, and the cursor is before the last.
  cursor.position = step_index % steps * plan.global_batch_size;
  cursor.samples_consumed = cursor.data_epoch * SamplesPerDataEpoch(plan) + cursor.position;
  return cursor;
}

TEST(ShardPlan, RepeatedAdvanceComesToWhatArithmeticSays) {
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

// A job that goes on with another batch size takes the rest of the data epoch, whole.
TEST(ShardPlan, OtherBatchSizeInTheMiddleTilesTheRest) {
  ForEachPlan([](const BatchPlan& plan) {
    for (int64_t begin = 0; HasBatchAt(plan, begin); begin += plan.global_batch_size) {
      BatchPlan other = plan;
      for (other.global_batch_size = 1; other.global_batch_size <= 13; ++other.global_batch_size) {
        int64_t next = begin;
        int64_t steps = 0;
        for (; HasBatchAt(other, next); ++steps) {
          next = BatchAt(other, next).end;
        }
        EXPECT_EQ(steps, StepsLeftInDataEpoch(other, begin));
        const int64_t rest = plan.sample_count - next;
        EXPECT_TRUE(plan.remainder == RemainderRule::kKeep ? rest == 0
                                                           : rest < other.global_batch_size);
      }
    }
  });
}

TEST(ShardPlanDeathTest, BatchBeyondTheEpochIsABrokenInvariant) {
  EXPECT_DEATH(BatchAt({10, 4, RemainderRule::kKeep}, 10), "no batch begins at sample 10 of 10");
  EXPECT_DEATH(BatchAt({10, 4, RemainderRule::kDrop}, 8), "no batch begins at sample 8 of 10");
  EXPECT_DEATH(SliceOf({0, 4}, 2, 2), "slice 2 of 2");
}

}  // namespace
}  // namespace lockstep::runtime
