// NVML as a test needs it: devices come from the environment variable LOCKSTEP_TEST_NVML_DEVICES,
// "uuid@bus,uuid@bus"; the word "broken" makes the library refuse to start.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr int kOk = 0;
constexpr int kDriverNotLoaded = 9;
constexpr int kInvalid = 2;

std::string_view Devices() {
  const char* const text = std::getenv("LOCKSTEP_TEST_NVML_DEVICES");
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// The `index`-th word of the list; empty beyond its end.
std::string_view Word(unsigned int index) {
  std::string_view list = Devices();
  for (; index > 0 && !list.empty(); --index) {
    const std::size_t comma = list.find(',');
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return list.substr(0, list.find(','));
}

std::string_view WordOf(void* device) {
  // A handle is index + 1: never null.
  return Word(static_cast<unsigned int>(reinterpret_cast<std::uintptr_t>(device)) - 1);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return Devices() == "broken" ? kDriverNotLoaded : kOk;
}

int nvmlShutdown() {
  return kOk;
}

const char* nvmlErrorString(int code) {
  return code == kDriverNotLoaded ? "Driver Not Loaded" : "Invalid Argument";
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
  const std::string_view word = WordOf(device);
  std::snprintf(uuid, length, "%s", std::string(word.substr(0, word.find('@'))).c_str());
  return kOk;
}

int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  constexpr std::size_t kBusIdOffset = 36;  // after the old id and five numbers of 4 bytes
  constexpr std::size_t kBusIdBytes = 32;
  const std::string_view word = WordOf(device);
  std::snprintf(static_cast<char*>(info) + kBusIdOffset,
                kBusIdBytes,
                "%s",
                std::string(word.substr(word.find('@') + 1)).c_str());
  return kOk;
}
}
