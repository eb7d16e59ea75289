#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// Which of the visible GPUs `asked` names, by index or UUID, as indexes into `visible`.
// Errors: kInvalidArgument naming what is not visible, or named twice, and what is visible.
Result<std::vector<std::size_t>> PickDevices(const std::vector<std::string>& asked,
                                             const std::vector<GpuDevice>& visible);

// The spec with each device that it names by its UUID, and a replica for each. Errors:
// kInvalidArgument: a device is not visible, or named twice.
Result<TrainingSpec> CheckDevices(TrainingSpec spec, const std::vector<GpuDevice>& visible);

}  // namespace lockstep::runtime
