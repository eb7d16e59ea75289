#pragma once

#include <cstdint>

namespace lockstep::control {

// What this process uses. Source: /proc/self.
struct ProcessStats {
  double cpu_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  double start_time_seconds = 0;  // since 1970
};

ProcessStats ReadProcessStats();

}  // namespace lockstep::control
