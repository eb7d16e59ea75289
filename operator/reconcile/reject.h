#pragma once

#include <string>

#include "common/base/time.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/decision.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What to do for a job whose manifest cannot be read, for the reason in `problem`: it has failed,
// for good and once, and its pods go. Needs nothing of `job` but its metadata and status.
Decision RejectJob(const TrainingJob& job,
                   const Observed& observed,
                   const std::string& problem,
                   WallTime now);

}  // namespace lockstep::control
