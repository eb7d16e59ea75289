#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// The job's gang, if it has one, goes, and none comes until the job is resumed.
void Suspend(DecisionBuilder* builder);

// A job that is not suspended waits for its turn from now on, unless it does already or has its
// places. One that was suspended begins its limits of time anew.
void StartOrResume(DecisionBuilder* builder);

}  // namespace lockstep::control
