#pragma once

#include <string>
#include <vector>

namespace lockstep::runtime {

// The ranks of each host, ascending; hosts by their first rank, which leads. `hosts` names the host
// of each rank; a rank with an empty name shares with nobody. Pure.
std::vector<std::vector<int>> GroupByHost(const std::vector<std::string>& hosts);

// The number of the group that holds `rank`. Precondition (checked): one does.
int GroupOf(const std::vector<std::vector<int>>& groups, int rank);

}  // namespace lockstep::runtime
