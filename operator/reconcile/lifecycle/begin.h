#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// What comes first in a turn, whatever becomes of the job: a new job is taken up, a change of its
// manifest forgets what the old one failed for, moments of a clock that was ahead are put right,
// and what no plan heeds is said.
void Begin(DecisionBuilder* builder);

}  // namespace lockstep::control
