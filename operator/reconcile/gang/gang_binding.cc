#include "operator/reconcile/gang/gang_binding.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "common/base/plural.h"
#include "operator/reconcile/gang/suspect_nodes.h"

namespace lockstep::control {

bool IsPlacedNatively(const TrainingJobStatus& status) {
  return !status.pod_group.empty();
}

std::string DescribePlaces(const TrainingJobStatus& status) {
  std::set<std::string> nodes;
  for (const PodPlacement& placement : status.placement) {
    nodes.insert(placement.node);
  }
  return Plural(static_cast<int64_t>(status.placement.size()), "pod") + " on " +
         Plural(static_cast<int64_t>(nodes.size()), "node");
}

bool HasItsNode(const TrainingJobStatus& status, const Member& member) {
  const bool is_bound = member.pod != nullptr && !member.pod->status.is_unbound &&
                        !member.pod->spec.node_name.empty();
  return !IsPlacedNatively(status) || is_bound;
}

bool IsInPodGroup(const TrainingJobStatus& status, Incarnation incarnation) {
  return IsPlacedNatively(status) && incarnation == Incarnation();
}

const CapacityObject* FindPodGroup(const NativeSight& sight, const std::string& name) {
  const auto found = std::find_if(sight.groups.begin(),
                                  sight.groups.end(),
                                  [&](const CapacityObject& group) { return group.name == name; });
  return found == sight.groups.end() ? nullptr : &*found;
}

bool AwaitsPodGroup(const TrainingJobStatus& status,
                    const NativeSight& sight,
                    const Member& member) {
  if (member.state != MemberState::kNotSeen || !IsInPodGroup(status, member.number.incarnation)) {
    return false;
  }
  const CapacityObject* const group = FindPodGroup(sight, status.pod_group);
  return group == nullptr || !group->is_ours || group->is_deleting;
}

std::vector<std::string> NodesToAvoid(const TrainingJobStatus& status,
                                      const PodPlacement& placement) {
  std::vector<std::string> nodes;
  for (const SuspectNode& suspect : status.suspect_nodes) {
    const bool is_used = std::any_of(
        status.placement.begin(), status.placement.end(), [&](const PodPlacement& place) {
          return place.node == suspect.node;
        });
    if (!is_used && SuspicionOf(status.suspect_nodes, suspect.node, placement.since) > 0) {
      nodes.push_back(suspect.node);
    }
  }
  return nodes;
}

}  // namespace lockstep::control
