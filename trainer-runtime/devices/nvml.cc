#include "trainer-runtime/devices/nvml.h"

#include <array>
#include <dlfcn.h>
#include <memory>

#include "trainer-runtime/devices/device_list.h"

namespace lockstep::runtime {
namespace {

// The part of NVML's C interface that is used, as its documentation has it. The header comes with
// the CUDA toolkit, which is not needed to build this program.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr std::size_t kUuidBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE

struct NvmlPciInfo {  // nvmlPciInfo_t
  std::array<char, 16> bus_id_legacy;
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  std::array<char, 32> bus_id;
};

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};

struct Functions {
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*count)(unsigned int*) = nullptr;
  NvmlReturn (*handle)(unsigned int, NvmlDevice*) = nullptr;
  NvmlReturn (*uuid)(NvmlDevice, char*, unsigned int) = nullptr;
  NvmlReturn (*pci_info)(NvmlDevice, NvmlPciInfo*) = nullptr;
};

template <typename Function>
bool Load(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

bool LoadAll(void* library, Functions* nvml) {
  return Load(library, "nvmlInit_v2", &nvml->init) &&
         Load(library, "nvmlShutdown", &nvml->shutdown) &&
         Load(library, "nvmlErrorString", &nvml->error_string) &&
         Load(library, "nvmlDeviceGetCount_v2", &nvml->count) &&
         Load(library, "nvmlDeviceGetHandleByIndex_v2", &nvml->handle) &&
         Load(library, "nvmlDeviceGetUUID", &nvml->uuid) &&
         Load(library, "nvmlDeviceGetPciInfo_v3", &nvml->pci_info);
}

Status Check(const Functions& nvml, NvmlReturn code, const std::string& what) {
  if (code == kNvmlSuccess) {
    return OkStatus();
  }
  return Error(ErrorCode::kUnavailable,
               "the NVIDIA management library refuses to " + what + ": " + nvml.error_string(code));
}

Result<GpuDevice> DescribeDevice(const Functions& nvml, unsigned int index) {
  const std::string which = "device " + std::to_string(index);
  NvmlDevice handle = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.handle(index, &handle), "open " + which));
  std::array<char, kUuidBytes> uuid{};
  LOCKSTEP_RETURN_IF_ERROR(
      Check(nvml, nvml.uuid(handle, uuid.data(), kUuidBytes), "name " + which));
  NvmlPciInfo pci{};
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.pci_info(handle, &pci), "locate " + which));
  uuid.back() = '\0';
  pci.bus_id.back() = '\0';
  return GpuDevice{uuid.data(), pci.bus_id.data()};
}

Result<std::vector<GpuDevice>> DescribeAll(const Functions& nvml) {
  unsigned int count = 0;
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.count(&count), "count devices"));
  if (count > static_cast<unsigned int>(kDevicesMax)) {
    return Error(
        ErrorCode::kResourceExhausted,
        std::to_string(count) + " GPUs found, expected at most " + std::to_string(kDevicesMax));
  }
  std::vector<GpuDevice> devices;
  for (unsigned int index = 0; index < count; ++index) {
    LOCKSTEP_ASSIGN_OR_RETURN(GpuDevice device, DescribeDevice(nvml, index));
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

Result<std::optional<std::vector<GpuDevice>>> ListNvmlDevices(const std::string& library_name) {
  using Found = std::optional<std::vector<GpuDevice>>;
  const std::unique_ptr<void, CloseLibrary> library(
      ::dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL));
  Functions nvml;
  if (library == nullptr || !LoadAll(library.get(), &nvml)) {
    return Found();
  }
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.init(), "start"));
  Result<std::vector<GpuDevice>> devices = DescribeAll(nvml);
  nvml.shutdown();
  if (!devices.ok()) {
    return std::move(devices).error();
  }
  return Found(std::move(devices).value());
}

}  // namespace lockstep::runtime
