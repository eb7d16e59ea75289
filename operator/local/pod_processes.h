#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/process/process_stat.h"

namespace lockstep::control {

// Whether a signal has stopped `pid`: it answers nothing until another lets it go on. False for a
// process that is not there.
bool IsStopped(pid_t pid);

// The lineage mark of `pid` (see SpawnOptions); null where there is none or it cannot be read.
// Source: /proc/<pid>/limits, which everybody may read.
std::optional<uint64_t> LineageMarkOf(pid_t pid);

// Lineage marks from the first to the last; 0 is no mark.
struct LineageRange {
  uint64_t first = 0;
  uint64_t last = 0;
};

// Which processes are meant: those of one of the sessions, those that were started with the prefix
// ("NAME=value", or the beginning of that) in their environment, which finds what a program put
// into the background with a session of its own, the children of `parent`, and those with a lineage
// mark of the range. Empty or 0 matches nothing.
struct ProcessSelector {
  std::vector<pid_t> sessions;
  std::string environment_prefix;
  pid_t parent = 0;
  pid_t spared = 0;  // never this one
  LineageRange lineage{};
};

// Sends `signal` once to every living process that matches. Returns how many got it.
int SignalMatching(const ProcessSelector& selector, int signal);

// Resident memory of all processes that descend from one of `leaders` or are in its session, by
// leader. Units: bytes; pages that processes share count for each.
std::map<pid_t, int64_t> ResidentBytesByLeader(const std::vector<ProcessStat>& table,
                                               const std::vector<pid_t>& leaders);

// Sends SIGKILL to all living processes that match any of `selectors`, again and again until none
// is left or `rounds_max` passes over the table were made (a process may fork while it is being
// looked at): a pass takes as long for many selectors as for one. Never signals this process.
// Returns how many were signalled.
int KillMatching(const std::vector<ProcessSelector>& selectors, int rounds_max);

// How many processes the kernel has killed for want of memory since it started; -1 if unknown.
// Source: /proc/vmstat, oom_kill.
int64_t ReadOomKillCount();

}  // namespace lockstep::control
