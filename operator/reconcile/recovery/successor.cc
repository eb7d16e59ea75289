#include "operator/reconcile/recovery/successor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/job/placement.h"
#include "operator/api/rules/gang_spread.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/recovery/refused_replacement.h"
#include "operator/resources/node_usage.h"
#include "operator/scheduler/nodes/node_topology.h"

namespace lockstep::control {
namespace {

// Restarting's or Running's reason while a successor has no room.
constexpr std::string_view kReplacementWaits = "ReplacementWaits";

// A successor without room is tried again this often, beside every time that something changes.
constexpr std::chrono::seconds kRoomRetry{1};

Gang GangOfTask(const DecisionBuilder& builder, const TaskId& task) {
  return GangOfOne(builder.job(), *builder.job().FindRole(task.role), TaskName(task));
}

// Takes what is kept for other jobs until others have gone: a successor has no more right to that
// than a new gang. Its place at home was never anybody else's.
void LeaveKept(const UsageByNode& kept, const std::string& home, Snapshot* snapshot) {
  for (SnapshotNode& node : snapshot->nodes) {
    const auto found = kept.find(node.name);
    if (found != kept.end() && node.name != home) {
      node.used = Sum(node.used, found->second.resources);
      node.pod_count += found->second.pod_count;
    }
  }
}

// The plan for the task's pod among the nodes that `may_use` lets through.
template <typename Predicate>
PlanResult PlanAmong(const Snapshot& snapshot,
                     const DecisionBuilder& builder,
                     const TaskId& task,
                     const Predicate& may_use) {
  Snapshot narrowed;
  std::copy_if(snapshot.nodes.begin(),
               snapshot.nodes.end(),
               std::back_inserter(narrowed.nodes),
               [&](const SnapshotNode& node) { return may_use(node.name); });
  LeaveKept(builder.observed().used_elsewhere.kept,
            FindPlacement(builder.status(), task)->node,
            &narrowed);
  return PlanGang(narrowed, GangOfTask(builder, task));
}

// Its node; empty without room.
template <typename Predicate>
std::string NodeAmong(const Snapshot& snapshot,
                      const DecisionBuilder& builder,
                      const TaskId& task,
                      const Predicate& may_use) {
  const PlanResult result = PlanAmong(snapshot, builder, task, may_use);
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

const SnapshotNode* NodeIn(const Snapshot& snapshot, const std::string& name) {
  const auto found = std::find_if(snapshot.nodes.begin(),
                                  snapshot.nodes.end(),
                                  [&](const SnapshotNode& node) { return node.name == name; });
  return found == snapshot.nodes.end() ? nullptr : &*found;
}

// The labels that nodes of one domain of the level share: its own, and those of wider levels.
std::vector<std::string> LabelsOfLevel(const std::vector<std::string>& levels,
                                       const std::string& level) {
  const auto own = std::find(levels.begin(), levels.end(), level);
  if (own == levels.end()) {
    return {level};  // the operator has been told of other levels since
  }
  return {levels.begin(), own + 1};
}

bool HaveInCommon(const SnapshotNode& a,
                  const SnapshotNode& b,
                  const std::vector<std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    const auto of_a = a.labels.find(label);
    const auto of_b = b.labels.find(label);
    return of_a != a.labels.end() && of_b != b.labels.end() && of_a->second == of_b->second;
  });
}

// Leaves the nodes of the domain that the gang has to be in: where those stand that stay, or where
// it stood, if nobody stays of whom that is known. A node that has lost its labels tells nothing.
void KeepToDomain(const DecisionBuilder& builder,
                  const std::set<TaskId>& leaving,
                  Snapshot* snapshot) {
  const std::string level = FindGangSpread(builder.job()).required;
  if (level.empty() || builder.observed().is_one_machine) {
    return;
  }
  const std::vector<std::string> labels = LabelsOfLevel(builder.observed().topology_levels, level);
  const auto tells = [&](const SnapshotNode& node) {
    return level == kHostLevel || HaveInCommon(node, node, labels);
  };
  std::optional<SnapshotNode> home;
  for (const PodPlacement& placement : builder.status().placement) {
    const SnapshotNode* const node = NodeIn(*snapshot, placement.node);
    const bool stays = leaving.count(TaskOf(placement)) == 0;
    if (node == nullptr || (home.has_value() && tells(*home) && !(stays && tells(*node)))) {
      continue;
    }
    home = *node;
    if (stays && tells(*node)) {
      break;
    }
  }
  if (!home.has_value()) {
    return;
  }
  std::erase_if(snapshot->nodes, [&](const SnapshotNode& node) {
    return level == kHostLevel ? node.name != home->name : !HaveInCommon(node, *home, labels);
  });
}

// Domains of the label by which the gang's pods stand apart.
class ApartDomains {
 public:
  explicit ApartDomains(const DecisionBuilder& builder)
      : level_(builder.observed().is_one_machine ? "" : FindGangSpread(builder.job()).apart),
        labels_(LabelsOfLevel(builder.observed().topology_levels, level_)) {}

  bool is_asked() const { return !level_.empty(); }

  const std::string& level() const { return level_; }

  // Empty: the node is in none, and no pod of the gang may stand there.
  std::string DomainOf(const SnapshotNode& node) const {
    if (level_ == kHostLevel) {
      return node.name;
    }
    std::string domain;
    for (const std::string& label : labels_) {
      const auto found = node.labels.find(label);
      if (found == node.labels.end()) {
        return "";
      }
      domain += found->second + "/";
    }
    return domain;
  }

 private:
  std::string level_;
  std::vector<std::string> labels_;
};

// Removes the nodes of every domain that holds a pod of the gang that stays.
void KeepApart(const DecisionBuilder& builder,
               const GangView& view,
               const std::set<TaskId>& leaving,
               Snapshot* snapshot) {
  const ApartDomains domains(builder);
  if (!domains.is_asked()) {
    return;
  }
  std::set<std::string> closed = {""};
  for (const Member& member : view.members) {
    const SnapshotNode* const node = NodeIn(*snapshot, member.node);
    if (node != nullptr && member.state != MemberState::kSucceeded &&
        leaving.count(member.task) == 0) {
      closed.insert(domains.DomainOf(*node));
    }
  }
  std::erase_if(snapshot->nodes,
                [&](const SnapshotNode& node) { return closed.contains(domains.DomainOf(node)); });
}

// The nodes where those processes may still run that are about to have successors, by task: nobody
// has told of their ends, or they are ended for it. Their places are their own successors' only.
std::map<TaskId, std::string> PlacesHeld(const GangView& view,
                                         const std::set<TaskId>& leaving,
                                         const Observed& observed) {
  std::map<TaskId, std::string> held;
  for (const Member& member : view.members) {
    if (leaving.count(member.task) > 0 && member.pod != nullptr && IsAlive(*member.pod, observed)) {
      held[member.task] = member.node;
    }
  }
  return held;
}

void Release(const std::string& name, const ResourceVector& request, Snapshot* snapshot) {
  for (SnapshotNode& node : snapshot->nodes) {
    if (node.name == name) {
      UsageByNode used = {{name, {node.used, node.pod_count}}};
      RemovePod(name, request, &used);
      node.used = used[name].resources;
      node.pod_count = used[name].pod_count;
    }
  }
}

// Room for the successors of one turn. `snapshot` is with the places of `held`.
class SuccessorPlan {
 public:
  SuccessorPlan(Snapshot snapshot,
                std::map<TaskId, std::string> held,
                const DecisionBuilder& builder)
      : snapshot_(std::move(snapshot)),
        held_(std::move(held)),
        builder_(builder),
        domains_(builder) {}

  // The node for the task among those that `may_use` lets through; empty without room.
  template <typename Predicate>
  std::string NodeFor(const TaskId& task, const Predicate& may_use) {
    const std::set<std::string> closed = ClosedTo(task);
    const auto is_open = [&](const std::string& name) {
      return may_use(name) && (closed.empty() || !closed.contains(DomainOf(name)));
    };
    const auto own = held_.find(task);
    if (own == held_.end()) {
      return NodeAmong(snapshot_, builder_, task, is_open);
    }
    const ResourceVector request = GangOfTask(builder_, task).classes.front().request;
    Release(own->second, request, &snapshot_);
    std::string node = NodeAmong(snapshot_, builder_, task, is_open);
    Take(own->second, request, &snapshot_);
    return node;
  }

  void Give(const TaskId& task, const std::string& node) {
    const auto own = held_.find(task);
    if (own == held_.end() || own->second != node) {
      Take(node, GangOfTask(builder_, task).classes.front().request, &snapshot_);
    } else {
      held_.erase(own);  // what was its own already
    }
    if (domains_.is_asked() && !node.empty()) {
      given_.insert(DomainOf(node));
    }
  }

 private:
  std::string DomainOf(const std::string& name) const {
    const SnapshotNode* const node = NodeIn(snapshot_, name);
    return node == nullptr ? "" : domains_.DomainOf(*node);
  }

  // Domains where other successors stand, or may still.
  std::set<std::string> ClosedTo(const TaskId& task) const {
    std::set<std::string> closed = given_;
    for (const auto& [other, node] : held_) {
      if (domains_.is_asked() && other != task) {
        closed.insert(DomainOf(node));
      }
    }
    return closed;
  }

  Snapshot snapshot_;
  std::map<TaskId, std::string> held_;
  const DecisionBuilder& builder_;
  ApartDomains domains_;
  std::set<std::string> given_;  // domains where successors of this turn stand
};

// Why the task's pod has no place.
std::string WhyNoPlace(const GangView& view, const TaskId& task, const DecisionBuilder& builder) {
  Snapshot snapshot = SnapshotBesideGang(builder.job(), builder.observed(), view, {task});
  MarkSuspects(builder.status(), builder.now(), &snapshot);
  KeepToDomain(builder, {task}, &snapshot);
  if (snapshot.nodes.empty()) {
    return "no known node is in the same " + FindGangSpread(builder.job()).required +
           " as the gang";
  }
  KeepApart(builder, view, {task}, &snapshot);
  if (snapshot.nodes.empty()) {
    return "every known " + ApartDomains(builder).level() + " already has another pod of the gang";
  }
  const PlanResult result =
      PlanAmong(snapshot, builder, task, [](const std::string&) { return true; });
  const auto* const refusal = std::get_if<Unschedulable>(&result);
  return refusal == nullptr ? "" : refusal->shortfall;
}

}  // namespace

void BeginSuccessor(PodPlacement* placement, WallTime now) {
  placement->incarnation = placement->incarnation.Next();
  placement->since = now;
  placement->pod_uid.clear();
  placement->devices.clear();
  placement->awaits_verdict = false;
  placement->disruption.clear();
}

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
  std::map<TaskId, std::string> held = PlacesHeld(view, leaving, builder->observed());
  std::set<TaskId> free = leaving;
  std::erase_if(free, [&](const TaskId& task) { return held.count(task) > 0; });
  Snapshot snapshot = SnapshotBesideGang(builder->job(), builder->observed(), view, free);
  MarkSuspects(builder->status(), builder->now(), &snapshot);
  KeepToDomain(*builder, leaving, &snapshot);
  KeepApart(*builder, view, leaving, &snapshot);
  SuccessorPlan plan(std::move(snapshot), std::move(held), *builder);
  std::vector<TaskId> moving;
  for (const Successor& successor : successors) {  // whoever may stay does, before others look
    const std::string& home = builder->PlacementOf(successor.task)->node;
    const bool stays =
        !successor.leaves_node &&
        !plan.NodeFor(successor.task, [&](const std::string& name) { return name == home; })
             .empty();
    if (stays) {
      plan.Give(successor.task, home);
    } else {
      moving.push_back(successor.task);
    }
  }
  for (const TaskId& task : moving) {
    std::string node =
        plan.NodeFor(task, [&](const std::string& name) { return at_fault.count(name) == 0; });
    if (node.empty()) {
      node = plan.NodeFor(task, [](const std::string&) { return true; });
    }
    plan.Give(task, node);
    builder->PlacementOf(task)->node = node;
  }
}

std::string NodeElsewhere(const GangView& view,
                          const Successor& successor,
                          const DecisionBuilder& builder) {
  Snapshot snapshot = SnapshotBesideGang(builder.job(), builder.observed(), view, {successor.task});
  MarkSuspects(builder.status(), builder.now(), &snapshot);
  KeepToDomain(builder, {successor.task}, &snapshot);
  KeepApart(builder, view, {successor.task}, &snapshot);
  const auto member = std::find_if(view.members.begin(), view.members.end(), [&](const auto& one) {
    return one.task == successor.task;
  });
  return NodeAmong(snapshot, builder, successor.task, [&](const std::string& name) {
    return member == view.members.end() || name != member->node;
  });
}

bool LacksPlace(const TrainingJobStatus& status) {
  return std::any_of(status.placement.begin(), status.placement.end(), [](const PodPlacement& one) {
    return one.node.empty();
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
  const Condition* const told = FindCondition(builder->status(), ConditionType::kRestarting);
  if (!LacksPlace(builder->status()) && told != nullptr && told->is_true &&
      told->reason == kReplacementWaits) {
    builder->Set(
        {ConditionType::kRestarting, true, "ReplacementPlaced", "the replacements were placed"});
  }
  return true;
}

void TellOfWaitingSuccessor(const GangView& view, DecisionBuilder* builder) {
  builder->WakeAt(builder->now() + kRoomRetry);
  const auto member = std::find_if(
      view.members.begin(), view.members.end(), [](const Member& one) { return one.node.empty(); });
  if (member == view.members.end() || TellsOfRefusal(view, *builder)) {
    return;
  }
  const std::string why =
      DescribeMember(*member) + " cannot be placed: " + WhyNoPlace(view, member->task, *builder);
  if (member->rank.has_value()) {
    builder->Set({ConditionType::kRestarting,
                  true,
                  std::string(kReplacementWaits),
                  why + "; the other ranks wait for it"},
                 EventType::kWarning);
  } else if (IsTrue(builder->status(), ConditionType::kRunning)) {
    builder->Set({ConditionType::kRunning,
                  true,
                  std::string(kReplacementWaits),
                  why + "; the ranks continue"},
                 EventType::kWarning);
  }
}

}  // namespace lockstep::control
