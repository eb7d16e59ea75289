#include "trainer-runtime/data/batch_loader.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trainer-runtime/data/sample_ledger.h"

namespace lockstep::runtime {
namespace {

// Sample i has the input {i, i} and the label i.
Dataset NumberedSamples(int64_t count) {
  IdxTensor images{{count, 2}, {}};
  IdxTensor labels{{count}, {}};
  for (int64_t i = 0; i < count; ++i) {
    images.values.insert(images.values.end(), 2, static_cast<uint8_t>(i));
    labels.values.push_back(static_cast<uint8_t>(i));
  }
  return Dataset::Make(std::move(images), std::move(labels), 1, "x").value();
}

TEST(BatchLoader, RowsBelongToTheIds) {
  const Dataset dataset = NumberedSamples(10);
  BatchLoader loader(&dataset, {{10, 4, RemainderRule::kKeep}, 1, true});
  const LoadedBatch batch = loader.Load({0, 8, 8}, 0, 1);
  ASSERT_EQ(batch.ids.size(), 2U);
  EXPECT_EQ(batch.global_sample_count, 2);
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    EXPECT_EQ(batch.labels[i], static_cast<float>(batch.ids[i]));
    EXPECT_EQ(batch.inputs[2 * i + 1], static_cast<float>(batch.ids[i]));
  }
}

TEST(BatchLoader, SlicesJoinToTheBatchOfOneRank) {
  const Dataset dataset = NumberedSamples(10);
  const BatchLoaderOptions options{{10, 7, RemainderRule::kKeep}, 1, true};
  BatchLoader alone(&dataset, options);
  BatchLoader shared(&dataset, options);
  const LoadedBatch whole = alone.Load({3, 0, 30}, 0, 1);
  for (int rank = 0; rank < 3; ++rank) {
    const LoadedBatch part = shared.Load({3, 0, 30}, rank, 3);
    EXPECT_TRUE(std::equal(part.ids.begin(), part.ids.end(), whole.ids.begin() + part.slice_begin));
    EXPECT_TRUE(std::equal(
        part.labels.begin(), part.labels.end(), whole.labels.begin() + part.slice_begin));
  }
}

// The whole proof in small: the world size changes from batch to batch, as in a job that loses and
// regains ranks, and the ledger finds every sample used once.
TEST(BatchLoader, ChangingWorldSizesLoseAndRepeatNothing) {
  for (const RemainderRule rule : {RemainderRule::kKeep, RemainderRule::kDrop}) {
    const Dataset dataset = NumberedSamples(101);
    const BatchPlan plan{101, 13, rule};
    BatchLoader loader(&dataset, {plan, 5, true});
    SampleLedger ledger(101);
    DataCursor cursor;
    for (int64_t step = 0; step < 4 * StepsPerDataEpoch(plan); ++step) {
      const int world_size = 1 + static_cast<int>(step % 7);
      for (int rank = 0; rank < world_size; ++rank) {
        ASSERT_TRUE(ledger.Add(loader.Load(cursor, rank, world_size).ids).ok());
      }
      const int64_t end = BatchAt(plan, cursor.position).end;
      const int64_t epoch = cursor.data_epoch;
      cursor = Advance(plan, cursor);
      const SampleTotals now = ledger.TotalsIfClosed(loader.ExpectedIds(epoch, end));
      EXPECT_EQ(now, (SampleTotals{cursor.samples_consumed, cursor.samples_consumed, 0, 0}));
      if (cursor.data_epoch != epoch) {
        ledger.CloseEpoch(loader.ExpectedIds(epoch, end));
      }
    }
    EXPECT_EQ(ledger.totals().consumed, 4 * SamplesPerDataEpoch(plan));
  }
}

TEST(BatchLoader, RankWithoutSamplesGetsAnEmptyBatch) {
  const Dataset dataset = NumberedSamples(4);
  BatchLoader loader(&dataset, {{4, 2, RemainderRule::kKeep}, 1, true});
  const LoadedBatch batch = loader.Load({0, 0, 0}, 0, 3);
  EXPECT_TRUE(batch.ids.empty());
  EXPECT_TRUE(batch.inputs.empty());
  EXPECT_EQ(batch.global_sample_count, 2);
}

}  // namespace
}  // namespace lockstep::runtime
