#pragma once

#include <string>

#include "common/base/time.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/decision.h"

namespace lockstep::control {

// What to do for a job of which the operator cannot read manifest or status, for the reason in
// `problem`: say so, in the condition Stalled, and leave all else as it is, pods that run among it.
// A newer version may have written it, or will read it. Only a job that was never taken up fails,
// for good: nothing of it exists that could be left. Needs nothing of `job` but its metadata and
// conditions.
Decision StallJob(const TrainingJob& job, const std::string& problem, WallTime now);

// The opposite, for a job that can be read: the condition is false if it ever was true. Returns
// whether anything changed.
bool EndStall(TrainingJobStatus* status, WallTime now);

}  // namespace lockstep::control
