#pragma once

#include "operator/api/job/training_job.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Whether a pod runs on only for containers that somebody else put into it: a webhook's sidecar
// that is no init container never ends, and Kubernetes calls such a pod Running for ever.
bool HasEndedBesideOthers(const Observed& observed);

// `observed` in which a pod has ended once the container of its role's template has, with success
// or not as that one did. A template has one container: all others are somebody else's.
Observed WithOwnEnds(const TrainingJob& job, Observed observed);

}  // namespace lockstep::control
