#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "trainer-runtime/checkpoint/snapshot.h"
#include "trainer-runtime/data/batch_loader.h"
#include "trainer-runtime/data/cursor.h"
#include "trainer-runtime/data/sample_ledger.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// Sums over the steps of one data epoch, for the loss and accuracy that people see.
struct EpochSums {
  int64_t data_epoch = 0;  // of the last step
  double loss_sum = 0;
  int64_t correct_count = 0;
  int64_t sample_count = 0;

  friend bool operator==(const EpochSums&, const EpochSums&) = default;
};

// Where training stands. Together with the model's tensors it is the whole state of a job: equal
// on every rank after every step, and enough to go on from.
struct TrainingState {
  explicit TrainingState(int64_t sample_count) : ledger(sample_count) {}

  bool is_established = false;  // false until taken from a peer, a checkpoint or the seed
  Step step;                    // taken so far, those that were skipped included
  DataCursor cursor;
  SampleLedger ledger;
  EpochSums sums;
  // As Snapshot has it: a training in another precision keeps what it has found.
  std::optional<LossScale> loss_scale;

  int64_t steps_skipped() const { return loss_scale ? loss_scale->steps_skipped : 0; }

  // What the optimizer counts.
  int64_t updates() const { return step.value() - steps_skipped(); }
};

// What a snapshot says besides the state.
struct SnapshotFacts {
  int64_t seed = 0;
  int world_size = 1;
  std::string fingerprint;  // fingerprint.h
};

// A snapshot whose tensors have names and shapes, but no values.
Snapshot TakeSnapshotHead(const TrainingState& state,
                          const std::vector<TensorView>& tensors,
                          const SnapshotFacts& facts);

// A copy of the whole state, of which `tensors` are a part, detached from them.
Snapshot TakeSnapshot(const TrainingState& state,
                      const std::vector<TensorView>& tensors,
                      const SnapshotFacts& facts);

// Puts a snapshot, of which a head is enough, into `state`, if it is of the model of `tensors`.
// Errors: kInvalidArgument when it belongs to another model, data set or seed: names the tensor,
// the shape found and the one expected. Nothing is changed then.
Status RestoreState(const Snapshot& snapshot,
                    int64_t seed,
                    const std::vector<TensorView>& tensors,
                    TrainingState* state);

// Puts the values of a snapshot that RestoreState has taken into `tensors`.
// Errors: kInvalidArgument (not as many as its shapes say). Nothing is changed then.
Status RestoreTensors(const Snapshot& snapshot, const std::vector<TensorView>& tensors);

// Whether the samples that `state` has counted in its data epoch are those that this job's order
// has before its cursor: otherwise some would be lost and others used twice. The only proof for
// checkpoints that have no fingerprint. Errors: kInvalidArgument with the numbers.
Status CheckCursor(const TrainingState& state, BatchLoader* loader);

// A snapshot without its values as bytes for another rank of the same build, and back.
// Little-endian. Errors of decoding: kCorrupt.
std::string EncodeSnapshotHead(const Snapshot& snapshot);
Result<Snapshot> DecodeSnapshotHead(const std::string& bytes);

}  // namespace lockstep::runtime
