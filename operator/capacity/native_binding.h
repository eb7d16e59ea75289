#pragma once

#include <optional>
#include <string>

#include "operator/capacity/capacity_wait.h"
#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// With scheduling.binding: Native the round says when a gang has room, and kube-scheduler where: it
// places the pods of a PodGroup, all or none. The PodGroup's name is in the status before it is
// made, it is there before the pods, and every one that is not in the status goes: so none is left
// over, however a gang ends.

// Whether the job asks for what it cannot have, as PodGroups are not seen.
bool LacksPodGroups(const DecisionBuilder& builder);

// What a job without places waits for because PodGroups are not seen; null: nothing.
std::optional<CapacityWait> AwaitPodGroups(DecisionBuilder* builder);

// The gang has just got its places: leaves them to kube-scheduler where the job asks for that.
void LeaveToScheduler(DecisionBuilder* builder);

// "attempt 0: 3 pods on 2 nodes", of a gang that has just got its places.
std::string DescribePlan(const TrainingJobStatus& status);

// Makes the PodGroup of the gang where it is missing, and removes those that are left over. The
// status is as decided, last of all.
void TellScheduler(DecisionBuilder* builder);

}  // namespace lockstep::control
