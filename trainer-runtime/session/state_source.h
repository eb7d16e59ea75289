#pragma once

#include <optional>
#include <vector>

#include "common/contract/status/status_document.h"
#include "trainer-runtime/rendezvous/mesh.h"

namespace lockstep::runtime {

// The rank whose state all others take: the lowest of those that applied the most steps; empty when
// nobody holds a state. `members` are those of a meeting, by rank. Pure.
std::optional<int> PickStateSource(const std::vector<MemberFacts>& members);

// Whether `rank` is the lowest of those that are left and hold a state. `members` are those of the
// newest meeting, by rank, and `peers` what has become of the others since. Of all that leave a
// broken gang one saves. Pure.
bool IsFirstOfHolders(int rank,
                      const std::vector<MemberFacts>& members,
                      const std::vector<PeerStatus>& peers);

}  // namespace lockstep::runtime
