#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"

namespace lockstep::runtime {

// What the kernel says of one process in /proc/PID/stat.
struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state =
      '?';          // proc(5): R runs, S sleeps, D waits for a device, T stopped, t traced, Z ended
  Duration cpu{0};  // of all its threads, and of the children that it has waited for

  friend bool operator==(const ProcessStat&, const ProcessStat&) = default;
};

// Parses one line of /proc/PID/stat, whose name of the program may hold anything. Null where it
// reads otherwise. `tick` is the unit of its times. Pure.
std::optional<ProcessStat> ParseProcessStat(std::string_view line, Duration tick);

// All processes that this one sees, without those that have ended. Those that end meanwhile may be
// missing. Costs some 20 us for each.
std::vector<ProcessStat> ReadProcessTable();

// The processes of `table` that belong to the program whose first process is `leader`: what
// descends from it, in whatever group, and what is in its group. In the order of the table. Pure.
std::vector<ProcessStat> FamilyOf(const std::vector<ProcessStat>& table, pid_t leader);

}  // namespace lockstep::runtime
