#pragma once

#include "operator/reconcile/act/decision_builder.h"

namespace lockstep::control {

// Says that training goes on at an earlier step than it had reached, from which to which, and why.
// `known` is what the status says; `next` is what will stand there. Says nothing of one step, which
// is what a survivor may lack of what a lost rank had done.
void TellOfFallBack(const JobProgress& known, const JobProgress& next, DecisionBuilder* builder);

}  // namespace lockstep::control
