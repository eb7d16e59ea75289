#include "operator/reconcile/pods/pod_request.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/base/check.h"
#include "operator/api/job/placement.h"
#include "operator/reconcile/gang/gang_binding.h"

namespace lockstep::control {
namespace {

// Empty where each is the first.
std::vector<Incarnation> PsIncarnations(const TrainingJobStatus& status) {
  std::vector<Incarnation> incarnations;
  bool has_successor = false;
  for (const PodPlacement& placement : status.placement) {
    if (placement.role == Role::kPs) {
      const auto index = static_cast<std::size_t>(placement.index);
      incarnations.resize(std::max(incarnations.size(), index + 1));
      incarnations[index] = placement.incarnation;
      has_successor = has_successor || placement.incarnation > Incarnation();
    }
  }
  return has_successor ? incarnations : std::vector<Incarnation>();
}

}  // namespace

PodRequest RequestPod(const TrainingJob& job, const TrainingJobStatus& status, const TaskId& task) {
  const PodPlacement* const placement = FindPlacement(status, task);
  LOCKSTEP_CHECK(placement != nullptr, TaskName(task) + " is not placed");
  PodRequest request{task,
                     {status.attempt, placement->incarnation},
                     status.epoch,
                     IsPlacedNatively(status) ? std::string() : placement->node,
                     status.control_counter};
  if (IsInPodGroup(status, placement->incarnation)) {
    request.pod_group = status.pod_group;
  }
  if (job.spec.training.has_value() && task.role == Role::kPs) {
    request.ps_incarnations = PsIncarnations(status);
  }
  return request;
}

}  // namespace lockstep::control
