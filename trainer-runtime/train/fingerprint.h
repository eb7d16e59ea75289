#pragma once

#include <string>

#include "common/base/result.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/data/dataset.h"

namespace lockstep::runtime {

// What a saved state silently depends on: another model that happens to have the same tensors would
// compute something else with them, another order of samples would lose some and repeat others.
//
// A JSON object in the manifest's own words: seed, remainder, model, loss, the optimizer's type,
// the order and scale of the data, and number and checksum of its samples. Left out is what a run
// may go on with at another value: length, learning rate, checkpoints, communication, ranks. The
// global batch size is told, not compared: a cursor counts samples.
std::string MakeFingerprint(const TrainingSpec& spec, const Dataset& train);

// Whether a state with fingerprint `saved` may be gone on from under `mine`. A field that `saved`
// does not have did not exist when it was made, and is not compared; empty: nothing is.
// Errors: kInvalidArgument, naming each field that differs with both values; kCorrupt (no JSON).
Status CompareFingerprints(const std::string& saved, const std::string& mine);

}  // namespace lockstep::runtime
