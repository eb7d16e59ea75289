#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Whether the failed members can be replaced one by one while the others keep running: an
// evaluator always, a ps or rank of the built-in trainer unless a rank has finished (a successor
// would wait for peers that never come), all that has failed are successors that have waited for
// them in vain, or both ps that hold a shard are lost, or the only one: nobody fills successors.
bool CanReplace(const DecisionBuilder& builder,
                const GangView& view,
                const std::vector<Failure>& failures);

// Gives each failed member a successor: counts the restart, raises the incarnation, and, if a rank
// was lost, the epoch, and tells the surviving ranks who is gone. The old pods are stale from here
// on and removed as such; the new ones are created with the missing pods of the turn.
// Precondition: their budget is spent.
void ReplaceMembers(const GangView& view,
                    const std::vector<Failure>& failures,
                    DecisionBuilder* builder);

}  // namespace lockstep::control
