#pragma once

#include "operator/reconcile/act/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Says in the condition RuntimeHeard when pods do not take the operator's key: it was made anew
// since they began, so that nothing is known of them but what Kubernetes tells.
void CheckKey(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
