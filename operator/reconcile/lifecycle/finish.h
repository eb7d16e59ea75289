#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// What is left to do for a job that has ended: its pods go as its cleanPodPolicy says, none before
// it could finish by itself, and the job itself when its time to live is over.
void Finish(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
