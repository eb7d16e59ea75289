#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Writes into the status what has become of the gang's pods since the last turn: on which nodes
// they are, what admission made of them, what keeps them from starting, how those ended that ended,
// and how often they have started their programs anew. Returns the gang as it is seen then.
GangView TakeNews(DecisionBuilder* builder);

}  // namespace lockstep::control
