#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// All devices that NVML shows, unordered; null where the library or one of its functions is not
// there. Errors and source: as ListDevices.
Result<std::optional<std::vector<GpuDevice>>> ListNvmlDevices(const std::string& library);

struct GpuReading {
  std::vector<GpuUse> uses;     // of the devices that can be read, unordered
  Status problem = OkStatus();  // kUnavailable: what the library says of the first that cannot
};

// Reads how all devices are used. The library stays open for as long as a copy of this lives. A
// call may wait for a driver that does not answer. Thread: one at a time.
using GpuUseReader = std::function<GpuReading()>;

// Null where the library, or one of the functions that name devices, is not there. Errors: as
// ListDevices.
Result<GpuUseReader> OpenGpuUse(const std::string& library);

}  // namespace lockstep::runtime
