#pragma once

#include <string>

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/data/dataset.h"

namespace lockstep::runtime {

// The fingerprint of a training (common/contract/training/state_fingerprint.h) with number,
// checksum and part of its samples.
std::string MakeFingerprint(const TrainingSpec& spec, const Dataset& train);

}  // namespace lockstep::runtime
