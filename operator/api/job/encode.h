#pragma once

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// The job as a document with every default written out; templates as they were written.
// DecodeTrainingJob gives back an equal job.
Json EncodeTrainingJob(const TrainingJob& job);

// The job's status alone: what a status write sends. Holds what is derived for tables too
// (derived_status.h).
Json EncodeStatus(const TrainingJob& job);

}  // namespace lockstep::control
