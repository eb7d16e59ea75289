#pragma once

#include "common/contract/status_document.h"
#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Whether a report, made at `reported_at`, may say that training stands at an earlier step than
// `known`: a pod was put in place since that was known, and this process has met the others since
// and has a state. Any other report that lies behind is only late.
bool MayFallBack(const JobProgress& known,
                 const StatusDocument& document,
                 WallTime reported_at,
                 const TrainingJobStatus& status);

// Says that training went on from an earlier step than it had reached, from which to which, and
// why. `known` is what the status says; `document` is of a process that MayFallBack. Says nothing
// of one step, which is what a survivor may lack of what a lost rank had done.
void TellOfFallBack(const JobProgress& known,
                    const StatusDocument& document,
                    DecisionBuilder* builder);

}  // namespace lockstep::control
