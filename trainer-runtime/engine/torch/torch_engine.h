#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// An engine whose convolutions and matrix products are LibTorch's, on one CPU thread. Equal specs,
// inputs and seeds give equal bits from run to run on one kind of CPU.
// Errors: kInvalidArgument with the field at fault; kInternal with LibTorch's text.
Result<std::unique_ptr<Engine>> MakeTorchEngine(const TrainingSpec& spec);

}  // namespace lockstep::runtime
