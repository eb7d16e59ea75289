#include "operator/view/pods/foreign_pods.h"

#include <memory>
#include <utility>
#include <variant>

namespace lockstep::control {

Result<kube::Item<PodUse>> DecodePodUse(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::Pod> pod, kube::DecodePod(json));
  PodUse use;
  use.node = pod.object->spec.node_name;
  use.requests = pod.object->spec.container.requests;
  use.has_ended = pod.object->status.phase == kube::PodPhase::kSucceeded ||
                  pod.object->status.phase == kube::PodPhase::kFailed;
  return kube::Item<PodUse>{std::move(pod.key),
                            std::move(pod.uid),
                            std::move(pod.resource_version),
                            std::make_shared<const PodUse>(std::move(use))};
}

bool ForeignPods::Apply(const kube::ObjectUpdate<PodUse>& update) {
  if (const auto* replaced = std::get_if<kube::Replaced<PodUse>>(&update)) {
    const bool had_any = !pods_.empty();
    for (const auto& [node, use] : *room_) {
      changed_.insert(node);
    }
    pods_.clear();
    room_.Edit().clear();
    names_.clear();
    for (const kube::Item<PodUse>& item : replaced->items) {
      Put(item);
    }
    return had_any;
  }
  if (const auto* upserted = std::get_if<kube::Upserted<PodUse>>(&update)) {
    return Put(upserted->item);
  }
  return Remove(std::get<kube::Deleted<PodUse>>(update).item.uid);
}

bool ForeignPods::Put(const kube::Item<PodUse>& item) {
  const PodUse& use = *item.object;
  const auto known = pods_.find(item.uid);
  if (known != pods_.end() && !use.has_ended && *known->second.node == use.node &&
      known->second.requests == use.requests) {
    return false;
  }
  const bool was_there = Remove(item.uid);
  if (!use.has_ended && !use.node.empty()) {
    AddPod(use.node, use.requests, &room_.Edit());
    changed_.insert(use.node);
    pods_[item.uid] = Entry{&*names_.insert(use.node).first, use.requests};
  }
  return was_there;
}

bool ForeignPods::Remove(const std::string& uid) {
  const auto found = pods_.find(uid);
  if (found == pods_.end()) {
    return false;
  }
  RemovePod(*found->second.node, found->second.requests, &room_.Edit());
  changed_.insert(*found->second.node);
  pods_.erase(found);
  return true;
}

}  // namespace lockstep::control
