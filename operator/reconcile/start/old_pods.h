#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Whether the next attempt has to wait for pods of the last: at most one attempt has pods. A pod
// that does not end in time, or may still write where nobody can reach it, is named in a condition
// with what it is that would end the wait.
bool WaitsForOldPods(const GangView& view, DecisionBuilder* builder);

// Whether the pod may be removed at once without an answer of its node. Ranks of the built-in
// trainer may: whatever one of them still does is refused by its epoch. What any other program
// still writes is not, so its node must be gone, or out of service for good.
bool MayBeForced(const kube::Pod& pod, const DecisionBuilder& builder);

// Whether pods that an earlier job of this name has left hold names that the next gang needs. They
// are asked to go, and the condition Scheduled names the first.
bool WaitsForLeftOvers(DecisionBuilder* builder);

// Whether a pod of the last gang that somebody took from a command runs on: a second copy of its
// rank would write beside it. It is nobody's to remove, and the condition Scheduled names it.
bool WaitsForDisowned(DecisionBuilder* builder);

}  // namespace lockstep::control
