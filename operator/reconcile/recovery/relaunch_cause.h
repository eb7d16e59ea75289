#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// `origin`, which is one of `failures`; where it and others were killed too close together to tell
// which was first, all of these in one sentence. Pure.
Failure WithAllKilled(const Failure& origin,
                      const std::vector<Failure>& failures,
                      bool is_one_machine);

// A relaunch begins with the first end that the operator is told of, which may be the echo of
// another: pods are asked one after the other. When all have halted it is known how and when each
// ended. What is said of the relaunch's cause, in the condition Restarting, in lastFailure, and in
// restarts and incidents, is then what ended first by the clock; all that were killed at once; or
// that it is one of several where nobody can tell. The metric stays with what was told first: a
// counter takes nothing back. To be called once, when all have halted. Precondition: a relaunch is
// under way.
void NameFirstEnd(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
