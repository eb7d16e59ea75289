#pragma once

#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// The decision for a job that somebody has deleted and that finalizers keep yet: nothing is made
// for it any more. While it waits, all that it waits by goes: its turn, its share of Kueue's, what
// it asks autoscalers for. Pods that it has are left alone, and it says so: garbage collection
// takes them with the job.
Decision ReleaseJob(const TrainingJob& job, const Observed& observed, WallTime now);

}  // namespace lockstep::control
