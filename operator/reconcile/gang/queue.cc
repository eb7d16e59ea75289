#include "operator/reconcile/gang/queue.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "operator/api/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/left_over.h"

namespace lockstep::control {
namespace {

// Our own name in runPolicy.managedBy; leaving it out means the same.
constexpr std::string_view kManagedByUs = "lockstep.dev/operator";

// The search of a gang of several classes ends sooner here than where it is placed: the question is
// asked for every gang ahead.
constexpr PlanOptions kCheckOptions{20'000};

void Add(const NodeUsage& use, SnapshotNode* node) {
  node->used = Sum(node->used, use.resources);
  node->pod_count += use.pod_count;
}

void AddAll(const UsageByNode& uses, Snapshot* snapshot) {
  for (SnapshotNode& node : snapshot->nodes) {
    if (const auto found = uses.find(node.name); found != uses.end()) {
      Add(found->second, &node);
    }
  }
}

UsageByNode UseOf(const Gang& gang, const Plan& plan) {
  UsageByNode uses;
  for (const PodClass& pod_class : gang.classes) {
    for (const std::string& pod : pod_class.pods) {
      AddPod(plan.node_by_pod.at(pod), pod_class.request, &uses);
    }
  }
  return uses;
}

// The cluster as it will be for one gang when everything older has ended.
Snapshot WithoutOlder(const Snapshot& snapshot,
                      const Observed& observed,
                      const WaitingGang& waiting) {
  Snapshot later = snapshot;
  for (SnapshotNode& node : later.nodes) {
    node.used = ResourceVector{};
    node.pod_count = 0;
  }
  AddAll(observed.used_by_strangers, &later);
  AddAll(waiting.held_by_younger, &later);
  return later;
}

void RaiseTo(const Snapshot& other, Snapshot* snapshot) {
  for (std::size_t i = 0; i < snapshot->nodes.size(); ++i) {
    SnapshotNode& node = snapshot->nodes[i];
    const SnapshotNode& more = other.nodes[i];
    node.used = Larger(node.used, more.used);
    node.pod_count = std::max(node.pod_count, more.pod_count);
  }
}

}  // namespace

bool IsOurs(const TrainingJob& job) {
  const std::string& manager = job.spec.run_policy.managed_by;
  return manager.empty() || manager == kManagedByUs;
}

bool WaitsForPods(const TrainingJobStatus& status) {
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  return scheduled != nullptr && !scheduled->is_true &&
         (scheduled->reason == kReasonPodStuck || scheduled->reason == kReasonNameTaken);
}

bool WaitsForRoom(const TrainingJob& job, WallTime now) {
  return IsOurs(job) && !HasEnded(job.status) && !job.spec.run_policy.suspend &&
         job.status.placement.empty() && !WaitsForPods(job.status) &&
         (job.status.rollbacks == 0 || !job.status.retry_at.has_value() ||
          *job.status.retry_at <= now);
}

bool FitsEmptyCluster(const Gang& gang, const CopyOnWrite<std::vector<kube::Node>>& nodes) {
  Observed empty;
  empty.nodes = nodes;
  const PlanResult result = PlanGang(SnapshotOf(empty, GangView{}), gang, kCheckOptions);
  const auto* const refusal = std::get_if<Unschedulable>(&result);
  return refusal == nullptr || refusal->constraint == Constraint::kSearchLimit;
}

PlanResult PlanInTurn(const Snapshot& snapshot, const Gang& gang, const Observed& observed) {
  PlanResult first = PlanGang(snapshot, gang);
  if (observed.ahead.empty() || !std::holds_alternative<Plan>(first)) {
    return first;
  }
  const auto wait = [&](const std::string& shortfall) {
    return Unschedulable{Constraint::kQueue, shortfall};
  };
  if (observed.ahead.size() > kGangsAheadMax) {
    return wait("waits behind " + observed.ahead.front().job + " and " +
                std::to_string(observed.ahead.size() - 1) + " other older jobs");
  }
  const UsageByNode taken = UseOf(gang, std::get<Plan>(first));
  const WaitingGang* hindered = nullptr;
  Snapshot reserved = snapshot;  // what is free both now and beside a place for each gang ahead
  for (const WaitingGang& waiting : observed.ahead) {
    Snapshot later = WithoutOlder(snapshot, observed, waiting);
    const PlanResult before = PlanGang(later, waiting.gang, kCheckOptions);
    if (!std::holds_alternative<Plan>(before)) {
      continue;
    }
    Snapshot beside = later;
    AddAll(taken, &beside);
    const bool fits = std::holds_alternative<Plan>(PlanGang(beside, waiting.gang, kCheckOptions));
    hindered = hindered == nullptr && !fits ? &waiting : hindered;
    AddAll(UseOf(waiting.gang, std::get<Plan>(before)), &later);
    RaiseTo(later, &reserved);
  }
  if (hindered == nullptr) {
    return first;
  }
  // Perhaps it is only this plan that stands in the way: one that spares a place for each gang
  // ahead does not.
  PlanResult second = PlanGang(reserved, gang);
  if (std::holds_alternative<Plan>(second)) {
    return second;
  }
  return wait("waits behind " + hindered->job + ", which needs " + DescribeNeed(hindered->gang));
}

}  // namespace lockstep::control
