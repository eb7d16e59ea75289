#include "operator/reconcile/policy/clean_pod_policy.h"

#include "operator/reconcile/policy/grace.h"

namespace lockstep::control {
namespace {

// Workers beside parameter servers serve the chief that has just finished: they have no last lines.
bool IsServer(const DecisionBuilder& builder, const Member& member) {
  return !builder.is_training() && member.task.role == Role::kWorker &&
         builder.job().FindRole(Role::kPs) != nullptr &&
         builder.job().FindRole(Role::kChief) != nullptr;
}

bool MayStillFinish(const DecisionBuilder& builder, const Member& member) {
  return !IsServer(builder, member) && IsTrue(builder.status(), ConditionType::kSucceeded) &&
         member.rank.has_value() && member.state == MemberState::kRunning &&
         builder.status().completion_time.has_value() &&
         builder.now() < *builder.status().completion_time + kFinishGrace;
}

}  // namespace

void CleanPods(const GangView& view, DecisionBuilder* builder) {
  const CleanPodPolicy policy = builder->spec().run_policy.clean_pod_policy;
  if (policy == CleanPodPolicy::kNone) {
    return;
  }
  const auto clean = [&](const kube::Pod& pod) {
    if (policy == CleanPodPolicy::kAll || !HasEnded(pod)) {
      builder->Delete(pod,
                      GraceOf(pod, builder->status(), builder->observed(), builder->is_training()),
                      "the job has ended");
    }
  };
  for (const kube::Pod* pod : view.stale) {
    clean(*pod);
  }
  for (const Member& member : view.members) {
    if (member.pod == nullptr) {
      continue;
    }
    if (MayStillFinish(*builder, member)) {
      builder->WakeAt(*builder->status().completion_time + kFinishGrace);
      continue;
    }
    clean(*member.pod);
  }
}

}  // namespace lockstep::control
