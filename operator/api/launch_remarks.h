#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/training_job.h"

namespace lockstep::control {

// What a job is served with, and hardly means: told by `lockstep validate`.
struct LaunchRemark {
  std::string field;
  std::string message;
};

// Commands that start torchrun and keep it in a world of its own, where the job has several pods:
// each would train alone, and the job succeed. Only what the manifest shows is seen.
std::vector<LaunchRemark> RemarksOn(const TrainingJob& job);

// The value of torchrun's option `name` ("--nnodes") in a command or in a script among its words,
// its parts joined by "_" in `name`; empty: it is not there.
std::string TorchrunOption(const std::vector<std::string>& command, std::string_view name);

}  // namespace lockstep::control
