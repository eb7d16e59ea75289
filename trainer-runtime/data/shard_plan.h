#pragma once

#include <cstdint>

#include "common/contract/training_spec.h"
#include "trainer-runtime/data/cursor.h"

namespace lockstep::runtime {

// Who reads what, as arithmetic on positions of a data epoch's permutation. Pure.
//
// The rule, for N samples, global batch size B and W ranks:
//   steps of a data epoch   S = ceil(N / B) when the remainder is kept, floor(N / B) when dropped
//   batch b, 0 <= b < S     positions [b*B, min((b+1)*B, N)), m of them
//   rank r of that batch    positions [begin + floor(r*m / W), begin + floor((r+1)*m / W))
// So the slices of the ranks are contiguous, disjoint and cover the batch; their sizes differ by at
// most one; a rank's slice is empty when m < W. Nothing depends on W but the last line, so a change
// of the world size never moves a batch.

struct BatchPlan {
  int64_t sample_count = 0;       // N; more than 0
  int64_t global_batch_size = 1;  // B; more than 0
  RemainderRule remainder = RemainderRule::kKeep;
};

// Positions begin, begin + 1, ..., end - 1.
struct PositionRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }

  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

// S of the rule above. 0 when the remainder is dropped and N < B: the caller refuses such a job.
int64_t StepsPerDataEpoch(const BatchPlan& plan);

// How many samples one whole data epoch uses: N, or S*B when the remainder is dropped.
int64_t SamplesPerDataEpoch(const BatchPlan& plan);

// The positions of global batch `batch_index`. Precondition (checked): 0 <= batch_index < S.
PositionRange BatchPositions(const BatchPlan& plan, int64_t batch_index);

// The part of `batch` that `rank` reads. Precondition (checked): 0 <= rank < world_size.
PositionRange RankSlice(PositionRange batch, int rank, int world_size);

// The cursor after the step that used batch `cursor.batch_index`.
DataCursor Advance(const BatchPlan& plan, DataCursor cursor);

// The cursor before the step `step_index` (the first step is 0), computed from nothing: equal to
// step_index times Advance.
DataCursor CursorAt(const BatchPlan& plan, int64_t step_index);

}  // namespace lockstep::runtime
