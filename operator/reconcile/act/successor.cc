#include "operator/reconcile/act/successor.h"

#include <algorithm>
#include <set>
#include <string>

#include "operator/reconcile/gang/gang_plan.h"

namespace lockstep::control {
namespace {

// A successor without room is tried again this often, beside every time that something changes.
constexpr std::chrono::seconds kRoomRetry{1};

// The plan's node for one pod among the nodes that `may_use` lets through; empty without room.
template <typename Predicate>
std::string NodeAmong(const Snapshot& snapshot, const Gang& gang, const Predicate& may_use) {
  Snapshot narrowed;
  std::copy_if(snapshot.nodes.begin(),
               snapshot.nodes.end(),
               std::back_inserter(narrowed.nodes),
               [&](const SnapshotNode& node) { return may_use(node.name); });
  const PlanResult result = PlanGang(narrowed, gang);
  const auto* plan = std::get_if<Plan>(&result);
  return plan == nullptr ? "" : plan->node_by_pod.begin()->second;
}

void Take(const std::string& name, const ResourceVector& request, Snapshot* snapshot) {
  for (SnapshotNode& node : snapshot->nodes) {
    if (node.name == name) {
      node.used = Sum(node.used, request);
      ++node.pod_count;
    }
  }
}

Gang GangOfTask(const DecisionBuilder& builder, const TaskId& task) {
  return GangOfOne(builder.job(), *builder.job().FindRole(task.role), TaskName(task));
}

}  // namespace

void PlaceSuccessors(const GangView& view,
                     const std::vector<Successor>& successors,
                     DecisionBuilder* builder) {
  std::set<TaskId> leaving;
  std::set<std::string> at_fault;
  for (const Successor& successor : successors) {
    leaving.insert(successor.task);
    if (successor.leaves_node) {
      at_fault.insert(builder->PlacementOf(successor.task)->node);
    }
  }
  Snapshot snapshot = SnapshotBesideGang(builder->job(), builder->observed(), view, leaving);
  MarkSuspects(builder->status(), builder->now(), &snapshot);
  for (const Successor& successor : successors) {
    PodPlacement* const placement = builder->PlacementOf(successor.task);
    const std::string home = placement->node;
    const Gang gang = GangOfTask(*builder, successor.task);
    std::string node;
    if (!successor.leaves_node) {
      node = NodeAmong(snapshot, gang, [&](const std::string& name) { return name == home; });
    }
    if (node.empty()) {
      node = NodeAmong(
          snapshot, gang, [&](const std::string& name) { return at_fault.count(name) == 0; });
    }
    if (node.empty()) {
      node = NodeAmong(snapshot, gang, [](const std::string&) { return true; });
    }
    Take(node, gang.classes.front().request, &snapshot);
    placement->node = node;
  }
}

std::string NodeElsewhere(const GangView& view,
                          const Successor& successor,
                          const DecisionBuilder& builder) {
  Snapshot snapshot = SnapshotBesideGang(builder.job(), builder.observed(), view, {successor.task});
  MarkSuspects(builder.status(), builder.now(), &snapshot);
  const auto member = std::find_if(view.members.begin(), view.members.end(), [&](const auto& one) {
    return one.task == successor.task;
  });
  return NodeAmong(snapshot, GangOfTask(builder, successor.task), [&](const std::string& name) {
    return member == view.members.end() || name != member->node;
  });
}

bool PlaceWaitingSuccessors(const GangView& view, DecisionBuilder* builder) {
  std::vector<Successor> waiting;
  for (const Member& member : view.members) {
    if (member.node.empty()) {
      waiting.push_back({member.task, false});
    }
  }
  if (waiting.empty()) {
    return false;
  }
  PlaceSuccessors(view, waiting, builder);
  builder->WakeAt(builder->now() + kRoomRetry);
  return true;
}

}  // namespace lockstep::control
