#pragma once

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What to do for a job of which the operator cannot read manifest or status, for the reason that is
// observed: say so, in the condition Stalled, and leave all else as it is, pods that run among it.
// A newer version may have written it, or will read it. But what others were promised holds, as the
// status tells it: a gang with places ends at its limit of time, and goes for whom it is to go.
// Only a job that was never taken up fails, for good, as nothing of it exists that could be left,
// however long it was Stalled before; unless a newer version may read it: the definition is
// upgraded before the operator. Needs nothing of `job` but its metadata, its status and the
// deadline.
Decision StallJob(const TrainingJob& job, const Observed& observed, WallTime now);

// Whether the gang of such a job has lost its places, so that whoever is left in them is to go.
bool MustStalledPodsGo(const TrainingJobStatus& status);

}  // namespace lockstep::control
