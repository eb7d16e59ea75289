#include <map>
#include <string>

#include "operator/api/conditions.h"
#include "operator/api/derived_status.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "tests/sim/checks.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// Gangs that go so that others can start.
namespace lockstep::control::sim {

// Nobody goes but for one whose stored status asks for that very gang, and it costs nothing.
void Checks::CheckPreemption(const ObjectPtr& before_object, const ObjectPtr& after_object) {
  const TrainingJob& after = jobs_.Of(after_object);
  const TrainingJobStatus& was = jobs_.Of(before_object).status;
  const TrainingJobStatus& is = after.status;
  if (is.claim.has_value()) {
    for (const ClaimedGang& gang : is.claim->gangs) {
      claimed_.insert({gang.uid, gang.attempt});
    }
  }
  if (was.preemptions != is.preemptions) {
    context_->Count("a gang that goes for another");
    Require(is.preemptions == was.preemptions + 1 && is.attempt == was.attempt.Next() &&
                !was.placement.empty() && is.placement.empty(),
            NameOf(after) + ": a gang went for another and stays");
    Require(TotalRestarts(was) == TotalRestarts(is) && was.incidents == is.incidents &&
                was.quick_restarts == is.quick_restarts && was.rollbacks == is.rollbacks,
            NameOf(after) + ": what another asked for was charged to it");
    Require(claimed_.contains({after.metadata.uid, was.attempt}),
            NameOf(after) + ": a gang went for nobody");
  }
  if (was.claim.has_value() && was.placement.empty() && !is.placement.empty()) {
    CheckRoomIsFree(after);
  }
}

// By the pods that are there, and what is promised to those that are still to come.
void Checks::CheckRoomIsFree(const TrainingJob& placed) {
  std::map<std::string, Amounts> held;
  std::map<std::string, Attempt> attempts;  // by job uid, of gangs with places
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    if (HasEnded(job.status) || job.status.placement.empty()) {
      continue;
    }
    attempts[job.metadata.uid] = job.status.attempt;
    for (const PodPlacement& placement : job.status.placement) {
      if (!placement.is_completed) {
        AddTo(&held[placement.node], RequestsOfRole(*object, placement.role));
      }
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const std::string node = TextAt(*pod, "spec.nodeName");
    const auto identity = ParsePodLabels(LabelsOf(*pod));
    if (node.empty() || HasPodEnded(*pod) || !identity.has_value() ||
        identity->job_uid != JobUidOf(*pod)) {
      continue;
    }
    const auto attempt = attempts.find(identity->job_uid);
    if (attempt == attempts.end() || attempt->second != identity->number.attempt) {
      AddTo(&held[node], RequestsOfPod(*pod));
    }
  }
  for (const PodPlacement& placement : placed.status.placement) {
    const ObjectPtr node = server_->store().Get(kube::kNodes, {"", placement.node});
    if (node == nullptr || !IsNodeGood(placement.node)) {
      continue;
    }
    const std::string resource = Shortage(AllocatableOf(*node), {}, held[placement.node]);
    Require(resource.empty(),
            NameOf(placed) + ": placed on " + placement.node +
                " before those had gone who were asked to: " + resource);
  }
}

}  // namespace lockstep::control::sim
