#include "trainer-runtime/supervisor/process/process_table.h"

#include <algorithm>
#include <iterator>

namespace lockstep::runtime {
namespace {

std::vector<ProcessStat> Only(const std::vector<ProcessStat>& table,
                              const std::set<pid_t>& members) {
  std::vector<ProcessStat> some;
  std::copy_if(table.begin(), table.end(), std::back_inserter(some), [&](const auto& stat) {
    return members.count(stat.pid) > 0;
  });
  return some;
}

void AddDescendants(const std::vector<ProcessStat>& table, std::set<pid_t>* members) {
  for (std::size_t before = 0; before != members->size();) {  // ends: grows to the table at most
    before = members->size();
    for (const ProcessStat& stat : table) {
      if (members->count(stat.parent) > 0) {
        members->insert(stat.pid);
      }
    }
  }
}

}  // namespace

std::vector<ProcessStat> ReadProcessTable(const std::string& folder) {
  std::vector<ProcessStat> table = ReadProcessStats(folder);
  std::erase_if(table, HasEnded);
  return table;
}

std::vector<ProcessStat> FamilyOf(const std::vector<ProcessStat>& table, pid_t leader) {
  std::set<pid_t> members = {leader};
  for (const ProcessStat& stat : table) {
    if (stat.group == leader) {
      members.insert(stat.pid);
    }
  }
  AddDescendants(table, &members);
  return Only(table, members);
}

std::vector<ProcessStat> AdoptedBy(const std::vector<ProcessStat>& table,
                                   pid_t parent,
                                   const std::set<pid_t>& started) {
  std::set<pid_t> members;
  for (const ProcessStat& stat : table) {
    if (stat.parent == parent && started.count(stat.pid) == 0) {
      members.insert(stat.pid);
    }
  }
  AddDescendants(table, &members);
  return Only(table, members);
}

}  // namespace lockstep::runtime
