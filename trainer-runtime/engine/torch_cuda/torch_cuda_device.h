#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// The GPU of that UUID ("GPU-8f0c..."), or the first one that this process may use where none is
// named, for products of `precision`. LibTorch's CUDA half is loaded here and not before: nothing
// of it is needed to say that there is no GPU. The first call of the process comes before any use
// of LibTorch.
// Errors: kNotFound (no driver, no GPU, not that one, or a library of CUDA is missing: the sentence
// says which).
Result<std::unique_ptr<TorchDevice>> MakeCudaDevice(const std::string& uuid, Precision precision);

}  // namespace lockstep::runtime
