#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Writes down what the gang is made from and in whose name, once it has its places. A gang from
// before this was written down is taken for one of today's.
void NoteOrigin(DecisionBuilder* builder);

// Says that the manifest was changed since the gang was made, and how the change takes effect.
void AnnounceChange(DecisionBuilder* builder);

// Whether the gang is of an older manifest. It runs on as it is, but no pod is made for it any
// more: that one would differ from the others.
bool IsOutdated(const DecisionBuilder& builder);

// Whether a pod of the gang was decided and is still to be created.
bool LacksPods(const GangView& view);

// Gives up a gang that is not the one asked for any more; the next is made from the manifest as it
// is now. Counts no restart.
void RenewGang(DecisionBuilder* builder);

}  // namespace lockstep::control
