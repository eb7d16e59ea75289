#include "trainer-runtime/collectives/host_groups.h"

#include <algorithm>
#include <cstddef>

#include "common/base/check.h"

namespace lockstep::runtime {

std::vector<std::vector<int>> GroupByHost(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> groups;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& ranks) {
      return !hosts[rank].empty() && hosts[static_cast<std::size_t>(ranks.front())] == hosts[rank];
    });
    if (group == groups.end()) {
      groups.push_back({static_cast<int>(rank)});
    } else {
      group->push_back(static_cast<int>(rank));
    }
  }
  return groups;
}

int GroupOf(const std::vector<std::vector<int>>& groups, int rank) {
  for (std::size_t group = 0; group < groups.size(); ++group) {
    if (std::find(groups[group].begin(), groups[group].end(), rank) != groups[group].end()) {
      return static_cast<int>(group);
    }
  }
  LOCKSTEP_CHECK(false, "the rank belongs to no host");
}

}  // namespace lockstep::runtime
