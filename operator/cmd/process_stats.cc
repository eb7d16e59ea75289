#include "operator/cmd/process_stats.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unistd.h>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/resource.h>

namespace lockstep::control {
namespace {

// Fields of /proc/self/stat after the program's name, which may hold anything. Source: proc(5).
constexpr int kFieldUserTicks = 14 - 3;
constexpr int kFieldSystemTicks = 15 - 3;
constexpr int kFieldStartTicks = 22 - 3;
constexpr int kFieldVirtualBytes = 23 - 3;
constexpr int kFieldResidentPages = 24 - 3;

struct ProcessStats {
  double cpu_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  double start_time_seconds = 0;  // since 1970
};

double BootTime() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("btime ")) {
      return std::stod(line.substr(6));
    }
  }
  return 0;
}

ProcessStats ReadSelf() {
  ProcessStats stats;
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  text.erase(0, text.rfind(')') + 1);
  std::istringstream fields(text);
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::string field;
  for (int index = 0; fields >> field; ++index) {
    if (index == kFieldUserTicks || index == kFieldSystemTicks) {
      stats.cpu_seconds += std::stod(field) / ticks;
    } else if (index == kFieldStartTicks) {
      stats.start_time_seconds = BootTime() + std::stod(field) / ticks;
    } else if (index == kFieldVirtualBytes) {
      stats.virtual_bytes = std::stoll(field);
    } else if (index == kFieldResidentPages) {
      stats.resident_bytes = std::stoll(field) * ::sysconf(_SC_PAGESIZE);
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    stats.open_fds += entry.path().empty() ? 0 : 1;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    stats.max_fds = static_cast<int64_t>(limit.rlim_cur);
  }
  return stats;
}

prometheus::Gauge& AddGauge(prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry).Add({});
}

}  // namespace

ProcessMetrics::ProcessMetrics(prometheus::Registry* registry)
    : cpu_(prometheus::BuildCounter()
               .Name("process_cpu_seconds_total")
               .Help("CPU time of the process in user and system mode.")
               .Register(*registry)
               .Add({})),
      resident_(
          AddGauge(registry, "process_resident_memory_bytes", "Resident memory of the process.")),
      virtual_bytes_(
          AddGauge(registry, "process_virtual_memory_bytes", "Virtual memory of the process.")),
      start_time_(AddGauge(registry,
                           "process_start_time_seconds",
                           "Start time of the process, in seconds since 1970.")),
      open_fds_(AddGauge(registry, "process_open_fds", "File descriptors that are open.")),
      max_fds_(AddGauge(registry, "process_max_fds", "Maximum number of open file descriptors.")) {}

void ProcessMetrics::Refresh() {
  const ProcessStats stats = ReadSelf();
  const std::lock_guard lock(mutex_);
  cpu_.Increment(std::max(0.0, stats.cpu_seconds - cpu_.Value()));
  resident_.Set(static_cast<double>(stats.resident_bytes));
  virtual_bytes_.Set(static_cast<double>(stats.virtual_bytes));
  start_time_.Set(stats.start_time_seconds);
  open_fds_.Set(static_cast<double>(stats.open_fds));
  max_fds_.Set(static_cast<double>(stats.max_fds));
}

}  // namespace lockstep::control
