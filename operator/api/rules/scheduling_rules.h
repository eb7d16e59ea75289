#pragma once

#include <vector>

#include "common/base/error.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What of `spec.scheduling` contradicts itself or the templates, with each field's path: who places
// the pods has to be able to, and does not heed what it does not know.
std::vector<Error> SchedulingErrors(const TrainingJobSpec& spec);

}  // namespace lockstep::control
