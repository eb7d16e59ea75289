#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Writes into the ledger which pods were seen and which are done.
void NoteSeen(const GangView& view, DecisionBuilder* builder);

// What training came to, from the last words of the lowest rank that finished it.
void NoteResult(const GangView& view, DecisionBuilder* builder);

// Brings up to date what people read in the status: pods by what they do, how far training is, what
// it came to, and where the job stands in its queue. `view`: of the status as decided.
void Report(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
