#include "common/process/cores.h"

#include <algorithm>
#include <cstddef>
#include <sched.h>
#include <sstream>

#include "common/base/io/file.h"

namespace lockstep {
namespace {

constexpr std::size_t kLimitBytesMax = 4096;

}  // namespace

int CountCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&cores));
}

int64_t ReadCpuMilli(const std::string& root, int core_count) {
  const int64_t milli = int64_t{1000} * core_count;
  const auto quota = ReadFile(root + "/sys/fs/cgroup/cpu.max", kLimitBytesMax);
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

}  // namespace lockstep
