#include "operator/reconcile/policy/success_policy.h"

#include <algorithm>

namespace lockstep::control {

std::optional<TaskId> DecidingTask(const JobTopology& topology) {
  const std::optional<RankPlace> first = PlaceOfRank(topology, 0);
  return first.has_value() ? std::optional<TaskId>(first->task) : std::nullopt;
}

bool HasSucceeded(SuccessPolicy policy, const JobTopology& topology, const GangView& view) {
  const std::optional<TaskId> deciding = DecidingTask(topology);
  bool has_rank = false;
  for (const Member& member : view.members) {
    if (!member.rank.has_value()) {
      continue;
    }
    has_rank = true;
    const bool counts = policy == SuccessPolicy::kAllWorkers || member.task == deciding;
    if (counts && member.state != MemberState::kSucceeded) {
      return false;
    }
  }
  return has_rank;
}

}  // namespace lockstep::control
