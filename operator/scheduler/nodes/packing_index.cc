#include "operator/scheduler/nodes/packing_index.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// Kinds of pods of which fits are kept; above that all is forgotten. Choice: ten times what the
// largest trace has.
constexpr std::size_t kKindsMax = 4'096;

}  // namespace

void PackingIndex::SetNode(const std::string& name, const PackRoom& room) {
  LOCKSTEP_CHECK(std::is_sorted(room.device_milli_free.begin(), room.device_milli_free.end()),
                 "the devices must be sorted");
  const auto found = group_by_node_.find(name);
  if (found != group_by_node_.end() && found->second->first == room) {
    return;
  }
  RemoveNode(name);
  const auto group = groups_.try_emplace(room).first;
  group->second.nodes.insert(name);
  group_by_node_.emplace(name, group);
}

void PackingIndex::RemoveNode(const std::string& name) {
  const auto found = group_by_node_.find(name);
  if (found == group_by_node_.end()) {
    return;
  }
  found->second->second.nodes.erase(name);
  if (found->second->second.nodes.empty()) {
    groups_.erase(found->second);
  }
  group_by_node_.erase(found);
}

std::size_t PackingIndex::KindOf(const PackRequest& request) {
  if (score_version_ != score_->version() || kinds_.size() >= kKindsMax) {
    score_version_ = score_->version();
    kinds_.clear();
    for (auto& [room, group] : groups_) {
      group.fits.clear();
    }
  }
  return kinds_.try_emplace(request, kinds_.size()).first->second;
}

std::optional<PackChoice> PackingIndex::Choose(const PackRequest& request) {
  const std::size_t kind = KindOf(request);
  const PackRoom* best_room = nullptr;
  const std::string* best_node = nullptr;
  PackFit best_fit;
  for (auto& [room, group] : groups_) {
    if (group.fits.size() <= kind) {
      group.fits.resize(kind + 1);
    }
    KnownFit& known = group.fits[kind];
    if (!known.is_known) {
      known = {true, score_->BestFit(room, request)};
    }
    if (!known.fit) {
      continue;
    }
    const std::string& node = *group.nodes.begin();
    if (best_room == nullptr || score_->IsBetter(*known.fit, best_fit) ||
        (!score_->IsBetter(best_fit, *known.fit) && node < *best_node)) {
      best_room = &room;
      best_node = &node;
      best_fit = *known.fit;
    }
  }
  if (best_room == nullptr) {
    return std::nullopt;
  }
  return PackChoice{*best_node, RoomAfter(*best_room, request, best_fit.device_milli_free)};
}

}  // namespace lockstep::control
