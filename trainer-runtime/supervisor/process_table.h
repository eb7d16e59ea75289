#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
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
  char state = '?';     // of its main thread, by proc(5): R runs or waits for a core, S sleeps,
                        // D waits for a device, T stopped, t traced, Z ended
  int64_t threads = 1;  // an ended one that nobody has waited for counts as one
  Duration cpu{0};      // of all its threads, and of the children that it has waited for

  friend bool operator==(const ProcessStat&, const ProcessStat&) = default;
};

// Parses one line of /proc/PID/stat, whose name of the program may hold anything. Null where it
// reads otherwise. `tick` is the unit of its times. Pure.
std::optional<ProcessStat> ParseProcessStat(std::string_view line, Duration tick);

// All processes that `folder`, where proc(5) is mounted, shows, without those that have ended.
// Those that end meanwhile may be missing, and all where the folder is hidden. Costs some 20 us for
// each.
std::vector<ProcessStat> ReadProcessTable(const std::string& folder);

// The processes of `table` that belong to the program whose first process is `leader`: what
// descends from it, in whatever group, and what is in its group. In the order of the table. Pure.
std::vector<ProcessStat> FamilyOf(const std::vector<ProcessStat>& table, pid_t leader);

// What descends from children of `parent` that it has not started itself (`started`): orphans that
// it has adopted, as a subreaper does. In the order of the table. Pure.
std::vector<ProcessStat> AdoptedBy(const std::vector<ProcessStat>& table,
                                   pid_t parent,
                                   const std::set<pid_t>& started);

}  // namespace lockstep::runtime
