#include "operator/reconcile/lifecycle/clean_pod_policy.h"

#include "operator/api/status/conditions.h"

namespace lockstep::control {

CleanPodPolicy CleanPodPolicyOf(const TrainingJobSpec& spec, const TrainingJobStatus& status) {
  const CleanPodPolicy written = spec.run_policy.clean_pod_policy;
  return written == CleanPodPolicy::kNone && HasEndedByLimit(status) ? CleanPodPolicy::kRunning
                                                                     : written;
}

bool IsCleaned(CleanPodPolicy policy, const kube::Pod& pod) {
  switch (policy) {
    case CleanPodPolicy::kAll:
      return true;
    case CleanPodPolicy::kRunning:
      return !HasEnded(pod) || !pod.status.open_containers.empty();
    case CleanPodPolicy::kNone:
      break;
  }
  return false;
}

std::optional<WallTime> MayFinishUntil(const RunPolicy& policy,
                                       const TrainingJobStatus& status,
                                       const Member& member,
                                       WallTime now) {
  const bool is_evaluator = member.task.role == Role::kEvaluator;
  if (!IsTrue(status, ConditionType::kSucceeded) || !(member.rank.has_value() || is_evaluator) ||
      member.state != MemberState::kRunning || !status.completion_time.has_value()) {
    return std::nullopt;
  }
  const WallTime until =
      *status.completion_time + (is_evaluator ? policy.evaluator_grace : kFinishGrace);
  return now < until ? std::optional(until) : std::nullopt;
}

}  // namespace lockstep::control
