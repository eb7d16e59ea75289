#include "operator/reconcile/detect/own_end.h"

#include <algorithm>
#include <set>
#include <string>

#include "operator/reconcile/build/json_edit.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

bool MayHaveEnded(const kube::Pod& pod) {
  return pod.status.phase == kube::PodPhase::kRunning && pod.status.termination.has_value() &&
         !pod.status.open_containers.empty();
}

// The containers that the role's template names.
std::set<std::string> OwnContainers(const PodTemplate& pod) {
  std::set<std::string> names = {pod.trainer_name};
  const Json* const spec = FindField(pod.raw, "spec");
  const Json* const containers = spec == nullptr ? nullptr : FindField(*spec, "containers");
  if (containers == nullptr || !containers->is_array()) {
    return names;
  }
  for (const Json& container : *containers) {
    const Json* const name = FindField(container, "name");
    if (name != nullptr && name->is_string()) {
      names.insert(name->get<std::string>());
    }
  }
  return names;
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
    const std::set<std::string> own = OwnContainers(role->pod);
    const bool runs_on = std::any_of(pod.status.open_containers.begin(),
                                     pod.status.open_containers.end(),
                                     [&](const std::string& name) { return own.count(name) > 0; });
    if (!runs_on) {
      pod.status.phase = pod.status.termination->exit_code == 0 ? kube::PodPhase::kSucceeded
                                                                : kube::PodPhase::kFailed;
    }
  }
  return observed;
}

}  // namespace lockstep::control
