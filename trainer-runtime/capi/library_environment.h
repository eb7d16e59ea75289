#pragma once

#include <optional>
#include <string>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/supervised_place.h"

namespace lockstep::runtime {

// What a program finds out about its place in a job.
struct LibraryEnvironment {
  WorkerEnvironment worker;  // of this process: its rank and incarnation, not the pod's first one's
  std::string job_key;       // empty: the pod has none
  int channel_fd = -1;       // to the supervisor; -1: none that listens
  int closed_fd = -1;        // where there is none: what the supervisor had called it
};

// Reads the variables of a process, and the key file that they name. Errors: as ParseEnvironment;
// kNotFound (not a process of a job, or of a role that has no ranks).
Result<LibraryEnvironment> ReadLibraryEnvironment(EnvironmentMap variables);

}  // namespace lockstep::runtime
