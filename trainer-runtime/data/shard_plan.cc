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

bool HasBatchAt(const BatchPlan& plan, int64_t position) {
  CheckPlan(plan);
  const int64_t smallest = plan.remainder == RemainderRule::kKeep ? 1 : plan.global_batch_size;
  return position + smallest <= plan.sample_count;
}

int64_t StepsLeftInDataEpoch(const BatchPlan& plan, int64_t position) {
  CheckPlan(plan);
  const int64_t left = std::max<int64_t>(0, plan.sample_count - position);
  const bool has_rest = left % plan.global_batch_size != 0;
  const bool is_rest_used = has_rest && plan.remainder == RemainderRule::kKeep;
  return left / plan.global_batch_size + (is_rest_used ? 1 : 0);
}

int64_t StepsPerDataEpoch(const BatchPlan& plan) {
  return StepsLeftInDataEpoch(plan, 0);
}

int64_t SamplesPerDataEpoch(const BatchPlan& plan) {
  return plan.remainder == RemainderRule::kKeep ? plan.sample_count
                                                : StepsPerDataEpoch(plan) * plan.global_batch_size;
}

PositionRange BatchAt(const BatchPlan& plan, int64_t position) {
  LOCKSTEP_CHECK(position >= 0 && HasBatchAt(plan, position),
                 "no batch begins at sample " + std::to_string(position) + " of " +
                     std::to_string(plan.sample_count));
  return {position, std::min(position + plan.global_batch_size, plan.sample_count)};
}

PositionRange SliceOf(PositionRange batch, int index, int count) {
  LOCKSTEP_CHECK(index >= 0 && index < count,
                 "slice " + std::to_string(index) + " of " + std::to_string(count));
  // Integer division rounds down, and r*m stays far below 2^63: a batch fits in memory.
  return {batch.begin + index * batch.size() / count,
          batch.begin + (index + 1) * batch.size() / count};
}

DataCursor Advance(const BatchPlan& plan, DataCursor cursor) {
  const PositionRange batch = BatchAt(plan, cursor.position);
  cursor.samples_consumed += batch.size();
  cursor.position = batch.end;
  if (!HasBatchAt(plan, cursor.position)) {
    ++cursor.data_epoch;
    cursor.position = 0;
  }
  return cursor;
}

}  // namespace lockstep::runtime
