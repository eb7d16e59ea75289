#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Counts the pods of each role by what they do. Tasks without a pod are pending while the job is to
// run, and count nowhere while it is suspended or after its end.
void CountRoles(const GangView& view, DecisionBuilder* builder);

// How far training is, from the newest report of the lowest rank that gives one, and when that was
// first reported; kept as it was while nobody says anything new.
void NoteProgress(const GangView& view, DecisionBuilder* builder);

// What training came to, from the last words of the lowest rank that finished it.
void NoteResult(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
