#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

class TorchDevice;

// An engine of LibTorch's own layers and autograd on any device that LibTorch computes on. What it
// computes is what MakeTorchEngine's does, but for the order of sums; on a CPU that one is faster.
// Equal specs, inputs and seeds give equal bits from run to run on a CPU; a GPU's sums may come in
// another order each time.
// Errors: kInvalidArgument with the field at fault; kInternal with LibTorch's text.
Result<std::unique_ptr<Engine>> MakeAutogradEngine(const TrainingSpec& spec,
                                                   std::unique_ptr<TorchDevice> device);

}  // namespace lockstep::runtime
