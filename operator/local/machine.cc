#include "operator/local/machine.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string_view>
#include <system_error>

#include <sys/resource.h>
#include <sys/utsname.h>

#include "common/base/file.h"

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

int64_t ReadCpuMilli(const std::string& root, int core_count) {
  const int64_t milli = int64_t{1000} * core_count;
  const auto quota = ReadFile(root + "/sys/fs/cgroup/cpu.max", kProcFileBytesMax);
  if (!quota.ok()) {
    return milli;
  }
  std::istringstream words(*quota);
  int64_t allowed_us = 0;
  int64_t period_us = 0;
  if (words >> allowed_us >> period_us && period_us > 0) {  // "max 100000" fails the first
    return std::min(milli, 1000 * allowed_us / period_us);
  }
  return milli;
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

int CountCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&cores));
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
