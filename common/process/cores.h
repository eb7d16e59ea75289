#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// The cores this process may run on. Source: sched_getaffinity(2).
int CountCores();

// Thousandths of a core that this process may use: those of `core_count`, or what its container's
// limit (cgroup v2) leaves of them. `root`: where the file system begins; "" but in tests.
int64_t ReadCpuMilli(const std::string& root, int core_count);

}  // namespace lockstep
