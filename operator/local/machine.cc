#include "operator/local/machine.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include <sys/resource.h>
#include <sys/utsname.h>

#include "common/base/io/file.h"
#include "common/process/cores.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kProcFileBytesMax = 64 << 10;

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) {
    return std::nullopt;
  }
  return number;
}

int64_t ReadMemoryBytes(const std::string& root) {
  int64_t bytes = 0;
  const auto meminfo = ReadFile(root + "/proc/meminfo", kProcFileBytesMax);
  if (meminfo.ok()) {
    std::istringstream words(*meminfo);
    std::string name;
    words >> name >> bytes;  // "MemTotal:  24536452 kB" is the first line
    bytes = name == "MemTotal:" ? bytes * 1024 : 0;
  }
  const auto limit = ReadFile(root + "/sys/fs/cgroup/memory.max", kProcFileBytesMax);
  if (limit.ok()) {
    if (const auto limit_bytes = ParseInt(*limit)) {  // "max" when there is none
      bytes = bytes == 0 ? *limit_bytes : std::min(bytes, *limit_bytes);
    }
  }
  return bytes;
}

// The driver lists one folder per GPU; where /proc is hidden, the device files tell.
int64_t CountGpus(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code error;
  int64_t count = 0;
  for (fs::directory_iterator entry(root + "/proc/driver/nvidia/gpus", error), end;
       !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  if (count > 0) {
    return count;
  }
  error.clear();
  for (fs::directory_iterator entry(root + "/dev", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kPrefix = "nvidia";
    const bool is_gpu = name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
                        std::all_of(name.begin() + kPrefix.size(), name.end(), [](char letter) {
                          return letter >= '0' && letter <= '9';
                        });
    count += is_gpu ? 1 : 0;
  }
  return count;
}

}  // namespace

kube::Node DescribeMachine(const std::string& root, const std::string& name, int core_count) {
  kube::Node node;
  node.name = name;
  node.labels["kubernetes.io/hostname"] = name;
  node.allocatable.cpu_milli = ReadCpuMilli(root, core_count);
  node.allocatable.memory_bytes = ReadMemoryBytes(root);
  node.allocatable.gpu_count = CountGpus(root);
  return node;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

std::string HostName() {
  utsname name{};
  return ::uname(&name) == 0 && name.nodename[0] != '\0' ? name.nodename : "localhost";
}

}  // namespace lockstep::control
