#pragma once

#include <cstdint>
#include <string>

#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// The number that `text` is, from 1 to 9999; 0: none.
int64_t ProcessCountOf(const std::string& text);

// How many processes a pod of PyTorch runs, written into `role`: as torchrun says, where it was the
// launcher, else `per_pod` ("", a number, "auto", "gpu", "cpu"), which stands at `field`. A pod
// without a launcher runs one.
void SetTorchProcesses(const LaunchCommand& command,
                       const std::string& per_pod,
                       const std::string& field,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion);

}  // namespace lockstep::control
