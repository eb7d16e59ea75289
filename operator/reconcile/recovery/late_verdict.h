#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A rank is replaced as soon as its peers and its port show that its process has ended. How it
// ended is known when its kubelet tells, seconds later; until then the restart is counted under
// kCauseEnded, and the pod is left alone for kVerdictPatience, because deleting it would take the
// answer with it.

// Whether `pod` is what a rank's replacement took the place of, and its kubelet may yet tell how
// it ended.
bool AwaitsVerdict(const DecisionBuilder& builder, const kube::Pod& pod);

// Puts restarts under their causes as far as they are known. An end that the role's policy does not
// forgive fails the job, as it would have done if it had been known at once.
void LearnVerdicts(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
