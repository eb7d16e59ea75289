#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Removes pods of a finished job as its policy says, none before it could finish by itself.
// Precondition: the job has ended.
void CleanPods(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
