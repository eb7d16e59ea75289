#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Creates the pods that were decided and never seen, or none if one cannot be built. Where they are
// large, the next decisions create the rest.
void CreateMissing(const GangView& view, DecisionBuilder* builder);

// Older pods of a rank that lives on are killed at once: their work is taken over. Pods of an older
// attempt, or of a suspended job, get their grace, where there is a kubelet to give it.
void RemoveStale(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
