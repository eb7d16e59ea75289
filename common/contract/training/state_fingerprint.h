#pragma once

#include <string>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"

namespace lockstep {

// What a saved state silently depends on: another model that happens to have the same tensors would
// compute something else with them, another order of samples would lose some and repeat others.
//
// Of a training's spec: a JSON object in the manifest's own words, with seed, remainder, model,
// loss, the optimizer's type, the order and scale of the data. Left out is what a run may go on
// with at another value: length, learning rate, checkpoints, communication, ranks. The global batch
// size is told, not compared: a cursor counts samples. Who has read the data adds what it found
// below kFingerprintDataKey.
Json FingerprintOf(const TrainingSpec& spec);

inline constexpr const char* kFingerprintDataKey = "data";

// What rank `rank` trains where each has a model of its own: the job's spec with the seed
// `seed + rank`, so that models differ from their weights on, and each is what one worker of that
// seed would make of the rank's samples. Above the largest integer seeds go on from 0.
TrainingSpec SpecOfModel(TrainingSpec spec, int rank);

// Whether a state with fingerprint `saved` may be gone on from under `mine`. A field that `saved`
// does not have did not exist when it was made, and is not compared; empty: nothing is.
// Errors: kInvalidArgument, naming each field that differs with both values; kCorrupt (no JSON).
Status CompareFingerprints(const std::string& saved, const std::string& mine);

// What is said before the differences, by whoever finds them.
inline constexpr const char* kStateDoesNotFit =
    "the newest checkpoint does not fit this job; name another checkpoint directory to start "
    "afresh";

}  // namespace lockstep
