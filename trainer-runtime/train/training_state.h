#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "trainer-runtime/checkpoint/snapshot.h"
#include "trainer-runtime/data/cursor.h"
#include "trainer-runtime/data/sample_ledger.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// Where training stands. Together with the engine's tensors it is the whole state of a job: equal
// on every rank after every step, and enough to go on from.
struct TrainingState {
  explicit TrainingState(int64_t sample_count) : ledger(sample_count) {}

  bool is_established = false;  // false until taken from a peer, a checkpoint or the seed
  Step step;                    // updates applied so far
  DataCursor cursor;
  SampleLedger ledger;
};

// A copy of the whole state, detached from the engine.
Snapshot TakeSnapshot(const TrainingState& state, Engine* engine, int64_t seed, int world_size);

// Puts a snapshot into `state` and `engine`.
// Errors: kInvalidArgument when it belongs to another model, data set or seed: names the tensor,
// the shape found and the one expected. Nothing is changed then.
Status RestoreSnapshot(const Snapshot& snapshot,
                       int64_t seed,
                       TrainingState* state,
                       Engine* engine);

// The snapshot as bytes for another rank of the same build, and back. Little-endian.
// Errors of decoding: kCorrupt.
std::string EncodeSnapshot(const Snapshot& snapshot);
Result<Snapshot> DecodeSnapshot(const std::string& bytes);

}  // namespace lockstep::runtime
