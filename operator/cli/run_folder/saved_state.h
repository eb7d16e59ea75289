#pragma once

#include <string>

#include "common/base/result.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Whether a training may go on from the newest checkpoint in `folder`, as far as its manifest says:
// whoever edited what a state depends on hears of it before anything starts. No checkpoint, one
// that is damaged or cannot be read, and the samples themselves are left to the trainer.
// Errors: kInvalidArgument, with the checkpoint, each field that differs and both values.
Status CheckSavedState(const TrainingJob& job, const std::string& folder);

}  // namespace lockstep::control
