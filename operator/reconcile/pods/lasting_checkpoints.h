#pragma once

#include <string>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Why the checkpoints of a built-in training go with their pods: "no volume is mounted at
// /lockstep/work/checkpoints". Empty where they stay, where nothing can be said, and for a job that
// trains with a command of its own.
std::string WhyCheckpointsGo(const TrainingJob& job, const Observed& observed);

// What it costs to start the gang anew, for the end of a sentence that advises it: "; training
// begins at step 0 then, as no volume is mounted at ..., so checkpoints are deleted with their
// pods". Empty where WhyCheckpointsGo is.
std::string CostOfNewGang(const TrainingJob& job, const Observed& observed);

}  // namespace lockstep::control
