#include "operator/reconcile/lifecycle/renewal.h"

#include <algorithm>
#include <string>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_origin.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_size.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/lasting_checkpoints.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {
namespace {

// A change that costs what was trained is not to be a surprise.
std::string WhatIsLost(const DecisionBuilder& builder) {
  const std::string cost = CostOfNewGang(builder.job(), builder.observed());
  return cost.empty() ? "" : cost + ". Undo the change to keep the progress";
}

// A queue is charged for a gang as long as that runs, whatever the manifest says meanwhile.
std::string WhereItCounts(const DecisionBuilder& builder) {
  const std::string charged = QueueOf(builder.spec(), builder.status());
  const std::string named = QueueOf(builder.spec());
  return charged == named ? "" : " and still counts in queue " + charged + " instead of " + named;
}

// Of an older manifest.
bool IsOutdated(const DecisionBuilder& builder) {
  const TrainingJobStatus& status = builder.status();
  return !status.placement.empty() && status.origin != GangOrigin() &&
         IsOutdated(builder.job(), status.origin);
}

// Whether a pod of the gang was decided and is still to be created.
bool LacksPods(const GangView& view) {
  return std::any_of(view.members.begin(), view.members.end(), [](const Member& member) {
    return member.state == MemberState::kNotSeen;
  });
}

void RenewGang(DecisionBuilder* builder) {
  const ConditionChange change = {
      ConditionType::kScheduled,
      false,
      "SpecChanged",
      "the manifest has changed; the gang restarts with the new manifest"};
  GiveUpGang(builder);
  builder->Set(change);
  if (IsTrue(builder->status(), ConditionType::kRunning)) {
    builder->SetQuietly({ConditionType::kRunning, false, change.reason, change.message});
  }
}

}  // namespace

void NoteOrigin(DecisionBuilder* builder) {
  PlacementStatus* const gang = builder->mutable_placement();
  if (gang->placement.empty()) {
    gang->origin = GangOrigin();
  } else if (gang->origin == GangOrigin()) {
    gang->origin = OriginNow(builder->job(), builder->observed().settings);
  } else if (gang->origin.queue.empty()) {
    const GangOrigin now = OriginNow(builder->job(), builder->observed().settings);
    gang->origin.queue = now.queue;
    gang->origin.priority_class = now.priority_class;
  }
  if (!gang->placement.empty() && !gang->origin.priority.has_value()) {
    gang->origin.priority = builder->observed().priority;
  }
  if (!gang->placement.empty()) {
    gang->origin.active_deadline = builder->spec().run_policy.active_deadline;
  }
  if (!gang->placement.empty() && gang->origin.requests.empty() && !IsOutdated(*builder)) {
    gang->origin.requests = PlannedAmounts(builder->job());
  }
}

void AnnounceChange(DecisionBuilder* builder) {
  const Condition* const scheduled = FindCondition(builder->status(), ConditionType::kScheduled);
  if (scheduled == nullptr || !scheduled->is_true) {
    return;
  }
  if (IsOutdated(*builder)) {
    builder->Set({ConditionType::kScheduled,
                  true,
                  std::string(kReasonManifestChanged),
                  "the gang still runs with the manifest of generation " +
                      std::to_string(builder->status().origin.generation) +
                      WhereItCounts(*builder) +
                      ". The change takes effect when the gang restarts: set runPolicy.suspend to "
                      "true and back to false, or wait until a pod is lost" +
                      WhatIsLost(*builder)});
  } else if (scheduled->reason == kReasonManifestChanged) {
    builder->Set({ConditionType::kScheduled, true, "GangPlaced", "the gang matches the manifest"});
  }
}

void RenewOtherSize(DecisionBuilder* builder) {
  if (!builder->job().status.placement.empty() && !HasAskedSize(builder->job())) {
    RenewGang(builder);
  }
}

bool RenewOutdated(const GangView& view, const Trouble& trouble, DecisionBuilder* builder) {
  const bool needs_pods = !trouble.failures.empty() || !trouble.problems.empty() ||
                          LacksPods(view) ||
                          !builder->status().has_run;  // the change may be the cure
  if (!IsOutdated(*builder) || !needs_pods || trouble.fails_job) {
    return false;
  }
  RenewGang(builder);
  return true;
}

}  // namespace lockstep::control
