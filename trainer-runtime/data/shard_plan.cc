#include "trainer-runtime/data/shard_plan.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

void CheckPlan(const BatchPlan& plan) {
  LOCKSTEP_CHECK(plan.sample_count > 0, "sample_count is " + std::to_string(plan.sample_count));
  LOCKSTEP_CHECK(plan.global_batch_size > 0,
                 "global_batch_size is " + std::to_string(plan.global_batch_size));
}

}  // namespace

int64_t StepsPerDataEpoch(const BatchPlan& plan) {
  CheckPlan(plan);
  const int64_t whole = plan.sample_count / plan.global_batch_size;
  const bool has_rest = plan.sample_count % plan.global_batch_size != 0;
  return has_rest && plan.remainder == RemainderRule::kKeep ? whole + 1 : whole;
}

int64_t SamplesPerDataEpoch(const BatchPlan& plan) {
  return plan.remainder == RemainderRule::kKeep ? plan.sample_count
                                                : StepsPerDataEpoch(plan) * plan.global_batch_size;
}

PositionRange BatchPositions(const BatchPlan& plan, int64_t batch_index) {
  LOCKSTEP_CHECK(
      batch_index >= 0 && batch_index < StepsPerDataEpoch(plan),
      "batch " + std::to_string(batch_index) + " of " + std::to_string(StepsPerDataEpoch(plan)));
  const int64_t begin = batch_index * plan.global_batch_size;
  return {begin, std::min(begin + plan.global_batch_size, plan.sample_count)};
}

PositionRange RankSlice(PositionRange batch, int rank, int world_size) {
  LOCKSTEP_CHECK(rank >= 0 && rank < world_size,
                 "rank " + std::to_string(rank) + " of " + std::to_string(world_size));
  // Integer division rounds down, and r*m stays far below 2^63: a batch fits in memory.
  return {batch.begin + rank * batch.size() / world_size,
          batch.begin + (rank + 1) * batch.size() / world_size};
}

DataCursor Advance(const BatchPlan& plan, DataCursor cursor) {
  cursor.samples_consumed += BatchPositions(plan, cursor.batch_index).size();
  ++cursor.batch_index;
  if (cursor.batch_index == StepsPerDataEpoch(plan)) {
    ++cursor.data_epoch;
    cursor.batch_index = 0;
  }
  return cursor;
}

DataCursor CursorAt(const BatchPlan& plan, int64_t step_index) {
  const int64_t steps = StepsPerDataEpoch(plan);
  LOCKSTEP_CHECK(step_index >= 0 && steps > 0, "step " + std::to_string(step_index));
  DataCursor cursor;
  cursor.data_epoch = step_index / steps;
  cursor.batch_index = step_index % steps;
  // All batches of an epoch but its last are full, and the cursor is before the last.
  cursor.samples_consumed =
      cursor.data_epoch * SamplesPerDataEpoch(plan) + cursor.batch_index * plan.global_batch_size;
  return cursor;
}

}  // namespace lockstep::runtime
