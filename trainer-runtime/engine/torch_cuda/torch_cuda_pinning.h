#pragma once

#include <memory>

#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// Pins by CUDA, for all of its devices.
std::unique_ptr<HostPinning> MakeCudaPinning();

}  // namespace lockstep::runtime
