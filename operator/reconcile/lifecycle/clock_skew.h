#pragma once

#include "common/base/time.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// `status` without moments that are still to come at `now`: an earlier leader whose clock was ahead
// wrote them. What it decided counts as decided now, and a pause is no longer than the longest that
// anybody would decide now. Moments of the past stay: nobody can tell them from true ones.
TrainingJobStatus WithoutFuture(TrainingJobStatus status, WallTime now);

}  // namespace lockstep::control
