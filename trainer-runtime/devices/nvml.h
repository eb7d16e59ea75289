#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// All devices that NVML shows, unordered; null where the library or one of its functions is not
// there. Errors and source: as ListDevices.
Result<std::optional<std::vector<GpuDevice>>> ListNvmlDevices(const std::string& library);

}  // namespace lockstep::runtime
