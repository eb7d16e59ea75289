#include "operator/cmd/process_stats.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unistd.h>

#include <sys/resource.h>

namespace lockstep::control {
namespace {

// Fields of /proc/self/stat after the program's name, which may hold anything. Source: proc(5).
constexpr int kFieldUserTicks = 14 - 3;
constexpr int kFieldSystemTicks = 15 - 3;
constexpr int kFieldStartTicks = 22 - 3;
constexpr int kFieldVirtualBytes = 23 - 3;
constexpr int kFieldResidentPages = 24 - 3;

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

}  // namespace

ProcessStats ReadProcessStats() {
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

}  // namespace lockstep::control
