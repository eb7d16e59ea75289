#pragma once

#include <cstdint>

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/data/cursor.h"

namespace lockstep::runtime {

// Who reads what, as arithmetic on positions of a data epoch's permutation. Pure.
//
// The rule, for N samples, global batch size B and R replicas, numbered rank by rank:
//   steps of a data epoch   S = ceil(N / B) when the remainder is kept, floor(N / B) when dropped
//   the batch at position p positions [p, min(p+B, N)), m of them; when the remainder is dropped
//                           only where p+B <= N. The first is at 0, each next one where one ends.
//   replica r of that batch positions [begin + floor(r*m / R), begin + floor((r+1)*m / R))
// So the slices of the replicas are contiguous, disjoint and cover the batch; their sizes differ by
// at most one; a replica's slice is empty when m < R. Those of one rank's replicas lie side by side
// and are what one replica in their place would read. Nothing depends on R but the last line, so a
// change of the world size never moves a batch.

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

// Whether a batch starts at `position`, or the data epoch ends there.
bool HasBatchAt(const BatchPlan& plan, int64_t position);

// The steps from `position` to the end of the data epoch.
int64_t StepsLeftInDataEpoch(const BatchPlan& plan, int64_t position);

// S of the rule above. 0 when the remainder is dropped and N < B: the caller refuses such a job.
int64_t StepsPerDataEpoch(const BatchPlan& plan);

// How many samples one whole data epoch uses: N, or S*B when the remainder is dropped.
int64_t SamplesPerDataEpoch(const BatchPlan& plan);

// The positions of the global batch at `position`. Precondition (checked): position >= 0 and
// HasBatchAt.
PositionRange BatchAt(const BatchPlan& plan, int64_t position);

// The part of `batch` that the `index`-th of `count` reads: replicas, or ranks of equally many
// replicas. Precondition (checked): 0 <= index < count.
PositionRange SliceOf(PositionRange batch, int index, int count);

// The cursor after the step that used the batch at `cursor.position`.
DataCursor Advance(const BatchPlan& plan, DataCursor cursor);

}  // namespace lockstep::runtime
