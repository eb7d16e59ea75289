#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// NVIDIA's management library, which every driver brings.
inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Choice: twice what the largest machines have.
inline constexpr int kDevicesMax = 64;

// The GPUs that this pod sees, in the order of their PCI bus ids. Asks the management library;
// where that is not there, believes the names that a device plugin wrote into
// NVIDIA_VISIBLE_DEVICES, in their order. Words such as "all" and "none", and indexes, name no
// device. None is not an error. Loads the library and lets it go again.
// Errors: kUnavailable (the library is there and refuses: its own words), kResourceExhausted (more
// than kDevicesMax). Thread: any. Source: NVML's public C interface, by dlsym.
Result<std::vector<GpuDevice>> ListDevices(const EnvironmentMap& variables,
                                           const std::string& nvml_library = kNvmlLibrary);

// "CUDA_VISIBLE_DEVICES" and "CUDA_DEVICE_ORDER" for a process that may use `devices`; nothing
// without devices, or where the program's own environment already says which to use.
EnvironmentMap DeviceVariables(const std::vector<GpuDevice>& devices,
                               const EnvironmentMap& variables);

}  // namespace lockstep::runtime
