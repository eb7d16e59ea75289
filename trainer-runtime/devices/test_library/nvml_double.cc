// NVML as a test needs it: devices come from the environment variable LOCKSTEP_TEST_NVML_DEVICES,
// "uuid@bus,uuid@bus"; the word "broken" makes the library refuse to start. A GPU in slices is
// "uuid@bus/uuid/uuid", one word a slice: "-" for none, "!" for one that belongs to others. With
// LOCKSTEP_TEST_NVML_SIGTERM the process is told to end while the library starts.
// How devices are used is in LOCKSTEP_TEST_NVML_USE, "percent/bytes,percent/bytes" by GPU; "lost"
// is one that has fallen off the bus, "hang" one whose driver never answers, and nothing an idle
// one. Slices have no utilization. The bytes "calls" are how often they were asked for.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>

namespace {

constexpr int kOk = 0;
constexpr int kDriverNotLoaded = 9;
constexpr int kInvalid = 2;
constexpr int kNoPermission = 4;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kGpuIsLost = 15;

std::string_view Devices() {
  const char* const text = std::getenv("LOCKSTEP_TEST_NVML_DEVICES");
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// The `index`-th part of a list; empty beyond its end.
std::string_view Part(std::string_view list, char between, unsigned int index) {
  for (; index > 0 && !list.empty(); --index) {
    const std::size_t end = list.find(between);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return list.substr(0, list.find(between));
}

std::string_view Word(unsigned int index) {
  return Part(Devices(), ',', index);
}

// A handle is 1 + the GPU's index + 256 for each slice up to its own: never null.
constexpr std::uintptr_t kSliceStep = 256;

std::string_view WordOf(void* device) {
  return Word(static_cast<unsigned int>(reinterpret_cast<std::uintptr_t>(device) % kSliceStep) - 1);
}

// The part of the GPU's word that names the device itself.
std::string_view NameOf(void* device) {
  const auto part =
      static_cast<unsigned int>(reinterpret_cast<std::uintptr_t>(device) / kSliceStep);
  const std::string_view name = Part(WordOf(device), '/', part);
  return name.substr(0, name.find('@'));
}

// Of the GPU, or of the one that the slice is a part of.
std::string_view UseOf(void* device) {
  const char* const text = std::getenv("LOCKSTEP_TEST_NVML_USE");
  const std::string_view list = text == nullptr ? std::string_view() : std::string_view(text);
  const std::string_view use =
      Part(list,
           ',',
           static_cast<unsigned int>(reinterpret_cast<std::uintptr_t>(device) % kSliceStep) - 1);
  while (use == "hang") {
    ::pause();
  }
  return use;
}

unsigned long long NumberOf(std::string_view use, unsigned int part) {
  return std::strtoull(std::string(Part(use, '/', part)).c_str(), nullptr, 10);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (std::getenv("LOCKSTEP_TEST_NVML_SIGTERM") != nullptr) {
    ::kill(::getpid(), SIGTERM);
  }
  return Devices() == "broken" ? kDriverNotLoaded : kOk;
}

int nvmlShutdown() {
  return kOk;
}

const char* nvmlErrorString(int code) {
  return code == kDriverNotLoaded ? "Driver Not Loaded"
         : code == kGpuIsLost     ? "GPU is lost"
                                  : "Invalid Argument";
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  for (*count = 0; !Word(*count).empty(); ++*count) {
  }
  return kOk;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index) + 1);
  return Word(index).empty() ? kInvalid : kOk;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int length) {
  std::snprintf(uuid, length, "%s", std::string(NameOf(device)).c_str());
  return kOk;
}

int nvmlDeviceGetMigMode(void* device, unsigned int* current, unsigned int* pending) {
  *current = WordOf(device).find('/') == std::string_view::npos ? 0 : 1;
  *pending = *current;
  return kOk;
}

int nvmlDeviceGetMaxMigDeviceCount(void* /*device*/, unsigned int* count) {
  *count = 7;
  return kOk;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned int index, void** slice) {
  *slice = static_cast<char*>(device) + kSliceStep * (index + 1);
  const std::string_view name = NameOf(*slice);
  return name.empty() || name == "-" ? kNotFound : name == "!" ? kNoPermission : kOk;
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned int* gpu_and_memory) {
  if (reinterpret_cast<std::uintptr_t>(device) >= kSliceStep) {
    return kNotSupported;
  }
  const std::string_view use = UseOf(device);
  gpu_and_memory[0] = static_cast<unsigned int>(NumberOf(use, 0));
  gpu_and_memory[1] = 0;
  return use == "lost" ? kGpuIsLost : kOk;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  const std::string_view use = UseOf(device);
  total_free_used[0] = 80ULL << 30;
  static unsigned long long calls = 0;
  total_free_used[2] = Part(use, '/', 1) == "calls" ? ++calls : NumberOf(use, 1);
  total_free_used[1] = total_free_used[0] - total_free_used[2];
  return use == "lost" ? kGpuIsLost : kOk;
}

int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  constexpr std::size_t kBusIdOffset = 36;  // after the old id and five numbers of 4 bytes
  constexpr std::size_t kBusIdBytes = 32;
  const std::string_view word = WordOf(device);
  std::snprintf(static_cast<char*>(info) + kBusIdOffset,
                kBusIdBytes,
                "%s",
                std::string(Part(word.substr(word.find('@') + 1), '/', 0)).c_str());
  return kOk;
}
}
