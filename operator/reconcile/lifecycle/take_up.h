#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Takes the job up when it has no condition Created: it is new, or somebody has wiped its status.
// Of a job whose pods are there the gang goes on, with the attempt and the nodes that they tell,
// where the newest attempt has a pod for every task that the manifest asks for; else a new gang
// starts, at an attempt that none of them had. What nobody remembers is forgotten, and said to be.
void TakeUp(DecisionBuilder* builder);

}  // namespace lockstep::control
