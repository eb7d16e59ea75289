#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Ranks of a built-in training that exited 0 in its middle have failed: HasEndedEarly. What the
// status knows to be completed is. A command stops when it likes, whatever steps it has told of.
GangView WithEarlyEnds(const DecisionBuilder& builder, GangView view);

}  // namespace lockstep::control
