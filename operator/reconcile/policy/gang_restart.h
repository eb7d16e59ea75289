#pragma once

#include <vector>

#include "operator/reconcile/failure.h"
#include "operator/reconcile/pass.h"

namespace lockstep::control {

// The failure that decides for all that one pass sees. The built-in trainer survives its peers, so
// a permanent failure of one rank is its own and comes first. Any other program that loses a peer
// often ends with a code of its own, so there a failure that allows a restart is taken for the
// origin and a permanent one for its echo. Precondition: `failures` is not empty.
const Failure& OriginOf(const std::vector<Failure>& failures, bool is_training);

// Starts the whole gang anew: one restart is counted, for the origin's cause; attempt and epoch
// rise and the placement is given up, which makes every pod stale. The next gang is planned when
// all of them have ended. Precondition: the budget allows it.
void RestartGang(const Failure& origin, Pass* pass);

// Gives up the gang without counting: attempt and epoch rise so that its pods are stale at once.
void GiveUpGang(Pass* pass);

}  // namespace lockstep::control
