#include "trainer-runtime/devices/device_list.h"

#include <algorithm>
#include <string_view>

#include "trainer-runtime/devices/nvml.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kGivenDevices = "NVIDIA_VISIBLE_DEVICES";
constexpr const char* kCudaDevices = "CUDA_VISIBLE_DEVICES";
constexpr const char* kCudaOrder = "CUDA_DEVICE_ORDER";

bool IsUuid(std::string_view word) {
  return word.rfind("GPU-", 0) == 0 || word.rfind("MIG-", 0) == 0;
}

// The device names of a list such as "GPU-1,GPU-2", each once.
std::vector<GpuDevice> NamedDevices(std::string_view list) {
  std::vector<GpuDevice> devices;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    const GpuDevice device{std::string(word), ""};
    if (IsUuid(word) && std::find(devices.begin(), devices.end(), device) == devices.end()) {
      devices.push_back(device);
    }
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return devices;
}

}  // namespace

Result<std::vector<GpuDevice>> ListDevices(const EnvironmentMap& variables,
                                           const std::string& nvml_library) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<std::vector<GpuDevice>> seen,
                            ListNvmlDevices(nvml_library));
  if (seen.has_value()) {
    std::sort(seen->begin(), seen->end(), [](const GpuDevice& a, const GpuDevice& b) {
      return a.bus_id != b.bus_id ? a.bus_id < b.bus_id : a.uuid < b.uuid;
    });
    return *std::move(seen);
  }
  const auto given = variables.find(kGivenDevices);
  std::vector<GpuDevice> named =
      given == variables.end() ? std::vector<GpuDevice>() : NamedDevices(given->second);
  if (named.size() > static_cast<std::size_t>(kDevicesMax)) {
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(named.size()) + " devices found, expected at most " +
                     std::to_string(kDevicesMax))
        .WithField(kGivenDevices);
  }
  return named;
}

EnvironmentMap DeviceVariables(const std::vector<GpuDevice>& devices,
                               const EnvironmentMap& variables) {
  if (devices.empty() || variables.count(kCudaDevices) > 0) {
    return {};
  }
  std::string names;
  for (const GpuDevice& device : devices) {
    names += (names.empty() ? "" : ",") + device.uuid;
  }
  return {{kCudaDevices, names}, {kCudaOrder, "PCI_BUS_ID"}};
}

}  // namespace lockstep::runtime
