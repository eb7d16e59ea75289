#pragma once

#include "operator/api/training_job.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Whether a pod runs on only for containers that somebody else put into it: a webhook's sidecar
// that is no init container never ends, and Kubernetes calls such a pod Running for ever.
bool HasEndedBesideOthers(const Observed& observed);

// `observed` in which a pod has ended once all containers of its role's template have: with success
// or not as the pod's own container did. Pods whose template's containers run on are left alone.
Observed WithOwnEnds(const TrainingJob& job, Observed observed);

}  // namespace lockstep::control
