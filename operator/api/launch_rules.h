#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// What contradicts itself in how the runtime starts the processes of a role's command: `launcher`
// and `gpuVisibility`. `path` is the role's; `has_training`: the job has spec.training.
std::vector<Error> LaunchErrors(const RoleSpec& role, bool has_training, const std::string& path);

}  // namespace lockstep::control
