#include "trainer-runtime/session/state_source.h"

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

}  // namespace lockstep::runtime
