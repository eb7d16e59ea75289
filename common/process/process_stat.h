#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"

namespace lockstep {

// What the kernel says of one process in /proc/PID/stat. Source: proc(5).
struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';     // of its main thread: R runs or waits for a core, S sleeps, D waits for a
                        // device, T stopped, t traced, Z ended
  int64_t threads = 1;  // an ended one that nobody has waited for counts as one
  Duration cpu{0};      // of all its threads, and of the children that it has waited for
  int64_t resident_bytes = 0;
  uint64_t caught = 0;   // signals that it has handlers for: signal N is bit N - 1
  uint64_t blocked = 0;  // that its main thread holds back, as for a signalfd

  friend bool operator==(const ProcessStat&, const ProcessStat&) = default;
};

// The kernel's units in that line.
struct ProcessStatUnits {
  Duration tick{0};
  int64_t page_bytes = 0;
};

// Parses one line of /proc/PID/stat, whose name of the program may hold anything. Null where it
// reads otherwise. Pure.
std::optional<ProcessStat> ParseProcessStat(std::string_view line, const ProcessStatUnits& units);

// Whether nothing of the process runs any more. A main thread may end before others, which keep
// what the process has open: its ports are taken until the last of them has gone.
bool HasEnded(const ProcessStat& stat);

// Whether it does something of its own about `signal`, by a handler or by waiting for it.
bool Handles(const ProcessStat& stat, int signal);

// Of one process; null where there is none. `folder`: where proc(5) is mounted.
std::optional<ProcessStat> ReadProcessStat(pid_t pid, const std::string& folder = "/proc");

// All processes that `folder` shows, those that have ended among them, ordered by pid. Those that
// end meanwhile may be missing, and all where the folder is hidden. Costs some 20 us for each.
std::vector<ProcessStat> ReadProcessStats(const std::string& folder = "/proc");

}  // namespace lockstep
