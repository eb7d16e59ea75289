#include "trainer-runtime/session/state_source.h"

#include <algorithm>

namespace lockstep::runtime {

std::optional<int> PickStateSource(const std::vector<MemberFacts>& members) {
  const MemberFacts* source = nullptr;
  for (const MemberFacts& member : members) {
    if (member.has_state && (source == nullptr || member.last_applied > source->last_applied)) {
      source = &member;
    }
  }
  return source == nullptr ? std::nullopt : std::optional(source->rank);
}

bool IsFirstOfHolders(int rank,
                      const std::vector<MemberFacts>& members,
                      const std::vector<PeerStatus>& peers) {
  const auto holds_state = [&](const MemberFacts& member) {
    // A successor has another incarnation, and no state until it has met the others.
    return member.has_state && std::ranges::any_of(peers, [&](const PeerStatus& peer) {
             return peer.rank == member.rank && peer.incarnation == member.incarnation &&
                    peer.state == PeerState::kConnected;
           });
  };
  return std::ranges::none_of(members, [&](const MemberFacts& member) {
    return member.rank < rank && holds_state(member);
  });
}

}  // namespace lockstep::runtime
