#pragma once

#include <chrono>

#include "operator/reconcile/act/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// When one rank's success has decided the job, the others are at their own last lines: they get
// this long to end by themselves. Choice: longer than writing a last line takes, shorter than a
// person waits.
inline constexpr std::chrono::seconds kFinishGrace{5};

// Removes pods of a finished job as its policy says: All: every pod; Running: those whose process
// has not ended; None: none. Precondition: the job has ended.
void CleanPods(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
