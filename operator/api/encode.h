#pragma once

#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// The job as a document with every default written out; templates as they were written.
// DecodeTrainingJob gives back an equal job.
Json EncodeTrainingJob(const TrainingJob& job);

// The status alone: what a status write sends.
Json EncodeStatus(const TrainingJobStatus& status);

}  // namespace lockstep::control
