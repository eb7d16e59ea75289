#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// The gang as it is seen now, by the status as decided so far. Ranks of a built-in training that
// exited 0 in its middle have failed: HasEndedEarly. What the status knows to be completed is. A
// command stops when it likes, whatever steps it has told of.
GangView SeeGang(const DecisionBuilder& builder);

}  // namespace lockstep::control
