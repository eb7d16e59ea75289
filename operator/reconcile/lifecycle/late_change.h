#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Says in the last word of a job that has ended that a change of its spec came too late, once.
void RefuseLateChange(DecisionBuilder* builder);

// The same in the status alone; whether it was not there yet.
bool NoteLateChange(LifecycleStatus* status);

}  // namespace lockstep::control
