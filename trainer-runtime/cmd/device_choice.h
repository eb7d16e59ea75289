#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// Which of the visible GPUs `asked` names, by index or UUID, as indexes into `visible`.
// Errors: kInvalidArgument naming what is not visible, or named twice, and what is visible.
Result<std::vector<std::size_t>> PickDevices(const std::vector<std::string>& asked,
                                             const std::vector<GpuDevice>& visible);

// The spec, unless it names devices that are not visible, or any: no engine of this release
// computes on one. Errors: kInvalidArgument.
Result<TrainingSpec> CheckDevices(TrainingSpec spec, const std::vector<GpuDevice>& visible);

}  // namespace lockstep::runtime
