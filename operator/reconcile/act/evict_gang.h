#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// The gang goes so that another may start. Its ranks are told to save what they have, and its pods
// get their whole grace; attempt and epoch rise and the placement is given up, which makes every
// pod stale. No restart is counted and no budget spent: the job waits for its turn as before, and
// goes on from its checkpoint. Precondition: it has its places.
void EvictGang(const GangView& view, const EvictionOrder& order, DecisionBuilder* builder);

}  // namespace lockstep::control
