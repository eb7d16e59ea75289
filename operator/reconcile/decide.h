#pragma once

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What to do for one job now: a pure function of its manifest, its status, what is observed, and
// the time. Level-triggered: it can be asked at any moment, any number of times, also after a
// restart of the operator or after any effect was lost.
//
// The story: created -> the whole gang planned -> attempt, epoch and placement in the status ->
// all pods created -> running -> failures answered within the budget -> succeeded or failed, once
// and for good -> pods cleaned up.
//
// Promises: attempt, epoch and incarnations never decrease. A failure is counted in the status of
// the same decision whose effects answer it, so exactly once. Pods are created for the whole gang
// or for nobody. Equal input gives an equal answer.
Decision Decide(const TrainingJob& job, const Observed& observed, WallTime now);

}  // namespace lockstep::control
