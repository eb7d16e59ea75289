#pragma once

#include <string>
#include <vector>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Whether kube-scheduler chooses the nodes of the gang that the status places, whatever the
// manifest has come to say since: the placement is where there was room for the gang, and each
// pod's node once it is bound.
bool IsPlacedNatively(const TrainingJobStatus& status);

// "3 pods on 2 nodes": the places in the status.
std::string DescribePlaces(const TrainingJobStatus& status);

// Whether what has become of the member's node is its pod's business: not where kube-scheduler has
// yet to choose one.
bool HasItsNode(const TrainingJobStatus& status, const Member& member);

// Whether the gang's PodGroup names how many pods are to be placed together with one of that
// number. It counts the gang's first pods. A successor joins those that have their nodes, and is
// placed by itself: as a member it would wait for ever once another has done its work, as a
// PodGroup cannot be told that fewer are left.
bool IsInPodGroup(const TrainingJobStatus& status, Incarnation incarnation);

// The PodGroup of that name among those that are seen, whoever's it is; null: there is none.
const CapacityObject* FindPodGroup(const NativeSight& sight, const std::string& name);

// Whether the member's pod waits until the gang's PodGroup is there.
bool AwaitsPodGroup(const TrainingJobStatus& status,
                    const NativeSight& sight,
                    const Member& member);

// The nodes that a pod is kept from which kube-scheduler places, as that knows nothing of them:
// those that are suspected, but not where there was no room without them when the pod was decided.
std::vector<std::string> NodesToAvoid(const TrainingJobStatus& status,
                                      const PodPlacement& placement);

}  // namespace lockstep::control
