#pragma once

#include <string>
#include <vector>

#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What a job is served with, and hardly means: told by `lockstep validate`.
struct LaunchRemark {
  std::string field;
  std::string message;
};

// Commands that start torchrun and keep it in a world of its own, where the job has several pods:
// each would train alone, and the job succeed. And variables of torch that work against recovery.
// Only what the manifest shows is seen.
std::vector<LaunchRemark> RemarksOn(const TrainingJob& job);

}  // namespace lockstep::control
