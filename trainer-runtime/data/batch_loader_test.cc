#include "trainer-runtime/data/batch_loader.h"

#include <algorithm>
#include <span>
#include <vector>

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
  const LoadedBatch batch = loader.Load({0, 8, 8}, {0, 1, 1});
  ASSERT_EQ(batch.ids.size(), 2U);
  EXPECT_EQ(batch.global_sample_count, 2);
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    EXPECT_EQ(batch.shares[0].labels[i], static_cast<float>(batch.ids[i]));
    EXPECT_EQ(batch.shares[0].inputs[2 * i + 1], static_cast<float>(batch.ids[i]));
  }
}

// Six replicas on one, two, three and six ranks read what one replica reads.
TEST(BatchLoader, SharesJoinToTheBatchOfOneReplica) {
  constexpr int kReplicas = 6;
  const Dataset dataset = NumberedSamples(20);
  const BatchLoaderOptions options{{20, 17, RemainderRule::kKeep}, 1, true};
  BatchLoader alone(&dataset, options);
  BatchLoader shared(&dataset, options);
  const LoadedBatch whole = alone.Load({3, 0, 30}, {0, 1, 1});
  for (const int world_size : {1, 2, 3, 6}) {
    const int count = kReplicas / world_size;
    std::vector<float> labels;
    std::vector<int64_t> ids;
    for (int rank = 0; rank < world_size; ++rank) {
      const LoadedBatch part = shared.Load({3, 0, 30}, {rank * count, count, kReplicas});
      EXPECT_EQ(part.slice_begin, static_cast<int64_t>(ids.size()));
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      ASSERT_EQ(part.shares.size(), static_cast<std::size_t>(count));
      for (const LoadedShare& share : part.shares) {
        EXPECT_EQ(share.slice_begin, static_cast<int64_t>(labels.size()));
        EXPECT_EQ(share.inputs.size(), 2 * share.labels.size());
        EXPECT_EQ(share.inputs.front(), share.labels.front());
        labels.insert(labels.end(), share.labels.begin(), share.labels.end());
      }
    }
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), whole.ids.begin(), whole.ids.end()));
    const std::span<const float> expected = whole.shares[0].labels;
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), expected.begin(), expected.end()));
  }
}

TEST(BatchLoader, WhatWasLoadedAheadIsTheNextBatchAndLeavesTheLastOneAlone) {
  const Dataset dataset = NumberedSamples(20);
  const BatchLoaderOptions options{{20, 4, RemainderRule::kKeep}, 1, true};
  BatchLoader plain(&dataset, options);
  BatchLoader loader(&dataset, options);
  const ReplicaRange replicas{0, 2, 2};
  LoadedBatch batch = loader.Load({0, 0, 0}, replicas);
  for (int64_t position = 0; position < 20; position += 4) {
    const std::vector<float> before(batch.shares[1].inputs.begin(), batch.shares[1].inputs.end());
    const LoadedBatch expected = plain.Load({0, position, position}, replicas);
    EXPECT_TRUE(std::ranges::equal(batch.shares[1].inputs, expected.shares[1].inputs));
    EXPECT_TRUE(std::ranges::equal(batch.ids, expected.ids));
    EXPECT_EQ(batch.was_loaded_ahead, position > 0);
    if (position == 16) {
      break;
    }
    const auto ahead = loader.LoadAhead({0, position + 4, position + 4}, replicas);
    ASSERT_TRUE(ahead.has_value());
    EXPECT_TRUE(std::ranges::equal(batch.shares[1].inputs, before));
    batch = loader.Load({0, position + 4, position + 4}, replicas);
    EXPECT_EQ(batch.shares[1].inputs.data(), ahead->shares[1].inputs.data()) << "the same memory";
  }
}

// Ranks came or went, or the epoch is another.
TEST(BatchLoader, WhatWasLoadedAheadInVainIsForgotten) {
  const Dataset dataset = NumberedSamples(20);
  BatchLoader loader(&dataset, {{20, 4, RemainderRule::kKeep}, 1, true});
  loader.Load({0, 0, 0}, {0, 1, 2});
  EXPECT_FALSE(loader.LoadAhead({1, 0, 20}, {0, 1, 2}).has_value()) << "another data epoch";
  ASSERT_TRUE(loader.LoadAhead({0, 4, 4}, {0, 1, 2}).has_value());
  EXPECT_FALSE(loader.Load({0, 4, 4}, {0, 1, 1}).was_loaded_ahead) << "other replicas";
  EXPECT_FALSE(loader.Load({0, 4, 4}, {0, 1, 2}).was_loaded_ahead) << "forgotten by the last";
  ASSERT_TRUE(loader.LoadAhead({0, 8, 8}, {0, 1, 2}).has_value());
  loader.ExpectedIds(1, 20);
  EXPECT_FALSE(loader.Load({0, 8, 8}, {0, 1, 2}).was_loaded_ahead) << "the order was another's";
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
        ASSERT_TRUE(ledger.Add(loader.Load(cursor, {rank, 1, world_size}).ids).ok());
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

TEST(BatchLoader, ReplicaWithoutSamplesGetsAnEmptyBatch) {
  const Dataset dataset = NumberedSamples(4);
  BatchLoader loader(&dataset, {{4, 2, RemainderRule::kKeep}, 1, true});
  const LoadedBatch batch = loader.Load({0, 0, 0}, {0, 1, 3});
  EXPECT_TRUE(batch.ids.empty());
  EXPECT_TRUE(batch.shares.at(0).inputs.empty());
  EXPECT_EQ(batch.global_sample_count, 2);
}

}  // namespace
}  // namespace lockstep::runtime
