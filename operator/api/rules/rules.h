#pragma once

#include <vector>

#include "common/base/error.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Checks a decoded and defaulted job for the rules between fields and appends what breaks them:
// which roles a strategy takes, one chief and one evaluator, names that fit a DNS label with role
// and index, built-in trainer or commands but not both, processes and GPUs, elastic bounds, batch
// and ranks. A rule stays silent where one of its fields is already named in `errors`: one mistake,
// one message.
void CheckRules(const TrainingJob& job, std::vector<Error>* errors);

}  // namespace lockstep::control
