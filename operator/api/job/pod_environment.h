#pragma once

#include <vector>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Reads `env` and `envFrom` of the trainer container into `env` and `env_sources` of `pod`.
// Variables that the operator sets itself are refused.
void ReadEnvironment(ObjectReader& container, PodTemplate* pod, std::vector<Error>* errors);

}  // namespace lockstep::control
