#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/left_rank.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Ends the job as succeeded where its successPolicy says so, or where its training has finished:
// kOver then. kAwaited: it may have succeeded, and nothing else is decided on it in this turn.
DecisiveEnd EndBySuccess(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
