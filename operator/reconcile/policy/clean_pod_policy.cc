#include "operator/reconcile/policy/clean_pod_policy.h"

namespace lockstep::control {
namespace {

bool MayStillFinish(const Pass& pass, const Member& member) {
  return IsTrue(pass.status(), ConditionType::kSucceeded) && member.rank.has_value() &&
         member.state == MemberState::kRunning && pass.status().completion_time.has_value() &&
         pass.now() < *pass.status().completion_time + kFinishGrace;
}

}  // namespace

void CleanPods(const GangView& view, Pass* pass) {
  const CleanPodPolicy policy = pass->spec().run_policy.clean_pod_policy;
  if (policy == CleanPodPolicy::kNone) {
    return;
  }
  const auto clean = [&](const kube::Pod& pod) {
    if (policy == CleanPodPolicy::kAll || !HasEnded(pod)) {
      pass->Delete(pod, pod.spec.termination_grace, "the job has ended");
    }
  };
  for (const kube::Pod* pod : view.stale) {
    clean(*pod);
  }
  for (const Member& member : view.members) {
    if (member.pod == nullptr) {
      continue;
    }
    if (MayStillFinish(*pass, member)) {
      pass->WakeAt(*pass->status().completion_time + kFinishGrace);
      continue;
    }
    clean(*member.pod);
  }
}

}  // namespace lockstep::control
