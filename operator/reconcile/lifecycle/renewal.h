#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/trouble.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Writes down what the gang is made from and in whose name, once it has its places. A gang from
// before this was written down is taken for one of today's.
void NoteOrigin(DecisionBuilder* builder);

// Says that the manifest was changed since the gang was made, and how the change takes effect.
void AnnounceChange(DecisionBuilder* builder);

// Gives up a gang of another size than the one that is asked for: the next is made from the
// manifest as it is now. Counts no restart.
void RenewOtherSize(DecisionBuilder* builder);

// The same for a gang of an older manifest that needs pods: it runs on as it is, but no pod is made
// for it any more, as that one would differ from the others. Whether it was so.
bool RenewOutdated(const GangView& view, const Trouble& trouble, DecisionBuilder* builder);

}  // namespace lockstep::control
