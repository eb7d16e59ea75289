#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Says in the condition RuntimeHeard when pods do not take the operator's tokens, and what may be
// the cause: nothing is known of them then but what Kubernetes tells. It is true again once a pod
// has answered; a new leader that has asked nobody yet leaves it as it is.
void CheckKey(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
