#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// An engine without a numeric library, for tests of what surrounds an engine (also under
// sanitizers): Flatten and Dense layers with linear, relu or sigmoid between them, every loss and
// optimizer. A softmax or sigmoid at the end is allowed where the loss can absorb it.
// Plain loops, so small models only. Deterministic on every machine.
// Errors: kInvalidArgument with the field at fault ("model.layers[0]").
Result<std::unique_ptr<Engine>> MakeReferenceEngine(const TrainingSpec& spec);

}  // namespace lockstep::runtime
