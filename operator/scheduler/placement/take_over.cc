#include "operator/scheduler/placement/take_over.h"

#include <algorithm>
#include <utility>

#include "operator/scheduler/placement/placer.h"

namespace lockstep::control {
namespace {

// A gang that room is kept for, and which.
struct Claimant {
  const GangRecord* gang = nullptr;
  PlacedPods pods;
};

// The one that has most right to its room first.
std::vector<Claimant> ClaimantsBelow(const ClusterState& state,
                                     const GangRecord& gang,
                                     const std::set<std::string>& awaited) {
  std::vector<Claimant> claimants;
  for (const GangRecord* const one : state.claiming()) {
    if (one->queue == gang.queue && one->request.priority < gang.request.priority &&
        !awaited.contains(one->request.name)) {
      claimants.push_back({one, one->claimed_pods});
    }
  }
  std::stable_sort(claimants.begin(), claimants.end(), [](const Claimant& a, const Claimant& b) {
    return a.gang->request.priority > b.gang->request.priority;
  });
  return claimants;
}

std::optional<PlacedPods> Place(const ClusterState& state,
                                const GangRecord& gang,
                                int64_t search_steps_max) {
  if (!MayFitNow(state.nodes(), gang) || !state.queues().Allows(*gang.queue, gang.total)) {
    return std::nullopt;
  }
  return PlaceGang(state.nodes(), gang, {nullptr, true, search_steps_max}).pods;
}

// Whether what was kept for the gang is free still, when all have gone who leave.
bool MayKeep(const ClusterState& state, const Claimant& claimant) {
  const auto needed = SumByNode(state.HoldsOf(*claimant.gang, claimant.pods));
  return state.queues().Allows(*claimant.gang->queue, claimant.gang->total) &&
         std::ranges::all_of(needed, [&](const auto& one) {
           return HasRoomFor(state.nodes().FreeNow(one.first), one.second);
         });
}

}  // namespace

std::optional<TakeOver> FindTakeOver(Statement* statement,
                                     const GangRecord& gang,
                                     const std::set<std::string>& awaited,
                                     int64_t search_steps_max) {
  const ClusterState& state = statement->state();
  if (!state.queues().SpecOf(*gang.queue).preempts_lower_priority) {
    return std::nullopt;
  }
  const std::vector<Claimant> claimants = ClaimantsBelow(state, gang, awaited);
  if (claimants.empty()) {
    return std::nullopt;
  }
  const std::size_t begin = statement->checkpoint();
  for (const Claimant& claimant : claimants) {
    statement->Do({OperationKind::kUnclaim, claimant.gang->request.name});
  }
  std::optional<PlacedPods> pods = Place(state, gang, search_steps_max);
  const bool is_free = pods.has_value();
  const std::vector<const GangRecord*> leaving(state.leaving().begin(), state.leaving().end());
  for (const GangRecord* const one : leaving) {
    statement->Vacate(*one);
  }
  if (!is_free) {
    pods = Place(state, gang, search_steps_max);
  }
  std::optional<TakeOver> found;
  if (pods.has_value()) {
    found = TakeOver{{}, *pods, is_free};
    statement->Do({OperationKind::kStart, gang.request.name, {}, *std::move(pods)});
    for (const Claimant& claimant : claimants) {
      if (MayKeep(state, claimant)) {
        statement->Do({OperationKind::kClaim, claimant.gang->request.name, {}, claimant.pods});
      } else {
        found->claimants.push_back(claimant.gang->request.name);
      }
    }
    std::sort(found->claimants.begin(), found->claimants.end());
  }
  if (found.has_value() && found->claimants.empty()) {
    found.reset();  // it fits beside them
  }
  for (const GangRecord* const one : leaving) {
    statement->Reoccupy(*one);
  }
  statement->RollBack(begin);
  return found;
}

}  // namespace lockstep::control
