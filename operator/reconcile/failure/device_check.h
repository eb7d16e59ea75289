#pragma once

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Writes the GPUs that pods have reported into their placements, and judges them: the condition
// GPUAssignment is false when a pod sees another number than it asked for, or when one GPU is in
// two pods, of this job or of others; true when every pod has told and none of that is so. On one
// machine nobody deals GPUs out, and nothing is judged. Of a job with too many to be written down
// (RecordsDevices) nothing is judged either, and the condition says so.
void CheckDevices(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
