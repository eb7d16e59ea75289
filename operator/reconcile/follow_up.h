#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// What follows from a decision, whichever stage has made it: the status reports the gang, capacity
// sources are asked or released, and pods are created and deleted. After the job's end: only what
// is left to clean up.
void FollowUp(DecisionBuilder* builder);

}  // namespace lockstep::control
