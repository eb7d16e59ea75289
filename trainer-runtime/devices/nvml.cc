#include "trainer-runtime/devices/nvml.h"

#include <array>
#include <dlfcn.h>
#include <memory>
#include <utility>

#include "trainer-runtime/devices/device_list.h"

namespace lockstep::runtime {
namespace {

// The part of NVML's C interface that is used, as its documentation has it. The header comes with
// the CUDA toolkit, which is not needed to build this program.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr NvmlReturn kNvmlNotSupported = 3;
constexpr NvmlReturn kNvmlNoPermission = 4;
constexpr NvmlReturn kNvmlNotFound = 6;
constexpr unsigned int kMigEnabled = 1;  // NVML_DEVICE_MIG_ENABLE
constexpr std::size_t kUuidBytes = 96;   // NVML_DEVICE_UUID_V2_BUFFER_SIZE

struct NvmlPciInfo {  // nvmlPciInfo_t
  std::array<char, 16> bus_id_legacy;
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  std::array<char, 32> bus_id;
};

struct NvmlUtilization {  // nvmlUtilization_t, in percent
  unsigned int gpu;
  unsigned int memory;
};

struct NvmlMemory {  // nvmlMemory_t, in bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
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
  // Of drivers that know multi-instance GPUs (450 and newer); null in others.
  NvmlReturn (*mig_mode)(NvmlDevice, unsigned int* current, unsigned int* pending) = nullptr;
  NvmlReturn (*mig_count_max)(NvmlDevice, unsigned int*) = nullptr;
  NvmlReturn (*mig_handle)(NvmlDevice, unsigned int, NvmlDevice*) = nullptr;
  // For how a device is used; null where the library lacks one.
  NvmlReturn (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlReturn (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
};

struct FoundDevice {
  GpuDevice device;
  NvmlDevice handle = nullptr;
};

using FoundDevices = std::vector<FoundDevice>;

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

void LoadMig(void* library, Functions* nvml) {
  const bool has_all = Load(library, "nvmlDeviceGetMigMode", &nvml->mig_mode) &&
                       Load(library, "nvmlDeviceGetMaxMigDeviceCount", &nvml->mig_count_max) &&
                       Load(library, "nvmlDeviceGetMigDeviceHandleByIndex", &nvml->mig_handle);
  if (!has_all) {
    nvml->mig_mode = nullptr;
  }
}

Status Check(const Functions& nvml, NvmlReturn code, const std::string& what) {
  if (code == kNvmlSuccess) {
    return OkStatus();
  }
  return Error(ErrorCode::kUnavailable,
               "the NVIDIA management library cannot " + what + ": " + nvml.error_string(code));
}

Result<std::string> NameOf(const Functions& nvml, NvmlDevice handle, const std::string& which) {
  std::array<char, kUuidBytes> uuid{};
  LOCKSTEP_RETURN_IF_ERROR(
      Check(nvml, nvml.uuid(handle, uuid.data(), kUuidBytes), "name " + which));
  uuid.back() = '\0';
  return std::string(uuid.data());
}

bool IsSliced(const Functions& nvml, NvmlDevice gpu) {
  unsigned int current = 0;
  unsigned int pending = 0;
  return nvml.mig_mode != nullptr && nvml.mig_mode(gpu, &current, &pending) == kNvmlSuccess &&
         current == kMigEnabled;
}

// The slices of `gpu` that this container may use. What is sliced cannot be used as a whole.
Status DescribeSlices(const Functions& nvml,
                      NvmlDevice gpu,
                      const std::string& bus_id,
                      FoundDevices* devices) {
  unsigned int count_max = 0;
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.mig_count_max(gpu, &count_max), "count slices"));
  for (unsigned int index = 0; index < count_max; ++index) {
    const std::string which = "slice " + std::to_string(index) + " of " + bus_id;
    NvmlDevice slice = nullptr;
    const NvmlReturn opened = nvml.mig_handle(gpu, index, &slice);
    if (opened == kNvmlNotFound || opened == kNvmlNoPermission) {
      continue;  // no such slice, or not ours
    }
    LOCKSTEP_RETURN_IF_ERROR(Check(nvml, opened, "open " + which));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string uuid, NameOf(nvml, slice, which));
    devices->push_back({GpuDevice{std::move(uuid), bus_id}, slice});
  }
  return OkStatus();
}

Status DescribeGpu(const Functions& nvml, unsigned int index, FoundDevices* devices) {
  const std::string which = "device " + std::to_string(index);
  NvmlDevice handle = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.handle(index, &handle), "open " + which));
  NvmlPciInfo pci{};
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.pci_info(handle, &pci), "locate " + which));
  pci.bus_id.back() = '\0';
  if (IsSliced(nvml, handle)) {
    return DescribeSlices(nvml, handle, pci.bus_id.data(), devices);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::string uuid, NameOf(nvml, handle, which));
  devices->push_back({GpuDevice{std::move(uuid), pci.bus_id.data()}, handle});
  return OkStatus();
}

Result<FoundDevices> DescribeAll(const Functions& nvml) {
  unsigned int count = 0;
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, nvml.count(&count), "count devices"));
  if (count > static_cast<unsigned int>(kDevicesMax)) {
    return Error(
        ErrorCode::kResourceExhausted,
        std::to_string(count) + " GPUs found, expected at most " + std::to_string(kDevicesMax));
  }
  FoundDevices devices;
  for (unsigned int index = 0; index < count; ++index) {
    LOCKSTEP_RETURN_IF_ERROR(DescribeGpu(nvml, index, &devices));
  }
  return devices;
}

// What `call` reads of a device; null where this one, or the library, does not know it.
template <typename Value, typename Call>
Result<std::optional<Value>> ReadIfKnown(const Functions& nvml,
                                         Call call,
                                         const FoundDevice& one,
                                         const std::string& what) {
  Value value{};
  const NvmlReturn code = call == nullptr ? kNvmlNotSupported : call(one.handle, &value);
  if (code == kNvmlNotSupported) {
    return std::optional<Value>();
  }
  LOCKSTEP_RETURN_IF_ERROR(Check(nvml, code, "read the " + what + " of " + one.device.uuid));
  return std::optional<Value>(value);
}

Result<GpuUse> ReadUse(const Functions& nvml, const FoundDevice& one) {
  GpuUse use;
  use.uuid = one.device.uuid;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const auto utilization,
      ReadIfKnown<NvmlUtilization>(nvml, nvml.utilization, one, "utilization"));
  if (utilization.has_value()) {
    use.busy_ratio = utilization->gpu / 100.0;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto memory,
                            ReadIfKnown<NvmlMemory>(nvml, nvml.memory, one, "memory"));
  if (memory.has_value()) {
    use.memory_bytes = static_cast<int64_t>(memory->used);
  }
  return use;
}

// The library while it is in use.
class Library {
 public:
  // Null where it, or a function that names devices, is not there. Errors: as ListDevices.
  static Result<std::unique_ptr<Library>> Open(const std::string& name) {
    std::unique_ptr<Library> opened(new Library(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)));
    if (opened->library_ == nullptr || !LoadAll(opened->library_.get(), &opened->nvml_)) {
      return std::unique_ptr<Library>();
    }
    LoadMig(opened->library_.get(), &opened->nvml_);
    Load(opened->library_.get(), "nvmlDeviceGetUtilizationRates", &opened->nvml_.utilization);
    Load(opened->library_.get(), "nvmlDeviceGetMemoryInfo", &opened->nvml_.memory);
    LOCKSTEP_RETURN_IF_ERROR(Check(opened->nvml_, opened->nvml_.init(), "start"));
    opened->is_started_ = true;
    return opened;
  }

  ~Library() {
    if (is_started_) {
      nvml_.shutdown();
    }
  }

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& nvml() const { return nvml_; }

 private:
  explicit Library(void* library) : library_(library) {}

  std::unique_ptr<void, CloseLibrary> library_;
  Functions nvml_;
  bool is_started_ = false;
};

}  // namespace

Result<std::optional<std::vector<GpuDevice>>> ListNvmlDevices(const std::string& library_name) {
  using Found = std::optional<std::vector<GpuDevice>>;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Library> library, Library::Open(library_name));
  if (library == nullptr) {
    return Found();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FoundDevices found, DescribeAll(library->nvml()));
  std::vector<GpuDevice> devices;
  for (FoundDevice& one : found) {
    devices.push_back(std::move(one.device));
  }
  return Found(std::move(devices));
}

Result<GpuUseReader> OpenGpuUse(const std::string& library_name) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Library> library, Library::Open(library_name));
  if (library == nullptr) {
    return GpuUseReader();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(FoundDevices devices, DescribeAll(library->nvml()));
  return GpuUseReader([library = std::move(library), devices = std::move(devices)] {
    GpuReading reading;
    for (const FoundDevice& one : devices) {
      Result<GpuUse> use = ReadUse(library->nvml(), one);
      if (use.ok()) {
        reading.uses.push_back(std::move(use).value());
      } else if (reading.problem.ok()) {
        reading.problem = std::move(use).error();
      }
    }
    return reading;
  });
}

}  // namespace lockstep::runtime
