#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// The rendezvous of torchrun by which the torchruns of a job's pods meet as a session's ranks do
// (trainer-runtime/python/lockstep/torchrun).
inline constexpr std::string_view kOwnTorchrunRendezvous = "lockstep";

// What contradicts itself in how the runtime starts the processes of a role's command: `launcher`,
// `gpuVisibility`, and what torchrun is given for rendezvous and number of pods. `path` is the
// role's; `has_training`: the job has spec.training.
std::vector<Error> LaunchErrors(const RoleSpec& role, bool has_training, const std::string& path);

}  // namespace lockstep::control
