#include "operator/scheduler/placement/kept_room.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace lockstep::control {

namespace {

// For whom gangs leave that have not been told to go yet: those have their places, which only the
// claim takes from them. It may not end before, as a new leader would know nothing of it.
std::set<std::string> ClaimantsOfUntold(const ClusterState& state) {
  std::set<std::string> claimants;
  for (const GangRecord* const gang : state.leaving()) {
    claimants.insert(gang->beneficiary);
  }
  return claimants;
}

}  // namespace

bool MayComeFree(const ClusterState& state, const GangRecord& claimant) {
  return std::ranges::all_of(SumByNode(claimant.holds), [&](const auto& one) {
    return HasRoomFor(state.nodes().FreeOfStaying(one.first), one.second);
  });
}

std::vector<const GangRecord*> ClaimantsWithRoom(const ClusterState& state,
                                                 std::vector<const GangRecord*> claimants) {
  std::sort(claimants.begin(), claimants.end(), [](const GangRecord* a, const GangRecord* b) {
    return a->claimed_at != b->claimed_at ? a->claimed_at < b->claimed_at : IsOlder(*a, *b);
  });
  std::vector<const GangRecord*> with_room;
  const std::set<std::string> not_told = ClaimantsOfUntold(state);
  std::map<NodeIndex, NodeFree> left;  // beside those before
  for (const GangRecord* const claimant : claimants) {
    bool has_room = !not_told.contains(claimant->request.name);
    for (const auto& [node, usage] : SumByNode(claimant->holds)) {
      NodeFree& room = left.try_emplace(node, state.nodes().FreeBesideLeaving(node)).first->second;
      has_room = has_room && HasRoomFor(room, usage);
      room = Beside(std::move(room), usage);
    }
    if (has_room) {
      with_room.push_back(claimant);
    }
  }
  return with_room;
}

}  // namespace lockstep::control
