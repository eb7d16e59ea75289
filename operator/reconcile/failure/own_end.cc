#include "operator/reconcile/failure/own_end.h"

#include <algorithm>

#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

bool MayHaveEnded(const kube::Pod& pod) {
  return pod.status.phase == kube::PodPhase::kRunning && pod.status.termination.has_value() &&
         !pod.status.open_containers.empty();
}

}  // namespace

bool HasEndedBesideOthers(const Observed& observed) {
  return std::any_of(observed.pods.begin(), observed.pods.end(), MayHaveEnded);
}

Observed WithOwnEnds(const TrainingJob& job, Observed observed) {
  for (kube::Pod& pod : observed.pods) {
    const auto identity = ParsePodLabels(pod.labels);
    const RoleSpec* const role = identity.has_value() ? job.FindRole(identity->task.role) : nullptr;
    if (role == nullptr || !MayHaveEnded(pod)) {
      continue;
    }
    const auto& open = pod.status.open_containers;
    if (std::find(open.begin(), open.end(), role->pod.trainer_name) == open.end()) {
      pod.status.phase = pod.status.termination->exit_code == 0 ? kube::PodPhase::kSucceeded
                                                                : kube::PodPhase::kFailed;
    }
  }
  return observed;
}

}  // namespace lockstep::control
