#pragma once

#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/process/process_stat.h"

namespace lockstep::runtime {

// All processes that `folder`, where proc(5) is mounted, shows, without those that have ended.
// Promise and cost: as ReadProcessStats.
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
