#include "operator/reconcile/act/clean_pods.h"

#include "operator/reconcile/policy/clean_pod_policy.h"

namespace lockstep::control {

void CleanPods(const GangView& view, DecisionBuilder* builder) {
  const CleanPodPolicy policy = builder->spec().run_policy.clean_pod_policy;
  const auto clean = [&](const kube::Pod& pod) {
    if (IsCleaned(policy, pod)) {
      builder->Delete(pod, pod.spec.termination_grace, "the job has ended");
    }
  };
  for (const kube::Pod* pod : view.stale) {
    clean(*pod);
  }
  for (const Member& member : view.members) {
    if (member.pod == nullptr) {
      continue;
    }
    const auto until = MayFinishUntil(builder->status(), member, builder->now());
    if (until.has_value() && policy != CleanPodPolicy::kNone) {
      builder->WakeAt(*until);
      continue;
    }
    clean(*member.pod);
  }
}

}  // namespace lockstep::control
