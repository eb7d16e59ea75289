#pragma once

#include <optional>
#include <vector>

#include "trainer-runtime/rendezvous/mesh.h"

namespace lockstep::runtime {

// The rank whose state all others take: the lowest of those that applied the most steps; empty when
// nobody holds a state. `members` are those of a meeting, by rank. Pure.
std::optional<int> PickStateSource(const std::vector<MemberFacts>& members);

}  // namespace lockstep::runtime
