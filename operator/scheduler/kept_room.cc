#include "operator/scheduler/kept_room.h"

#include <algorithm>
#include <map>

namespace lockstep::control {

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
  std::map<NodeIndex, NodeFree> left;  // beside those before
  for (const GangRecord* const claimant : claimants) {
    bool has_room = true;
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
