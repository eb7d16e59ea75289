#pragma once

#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/contract/environment/environment.h"

namespace lockstep::runtime {

struct RunCommandOptions {
  std::vector<std::string> command;  // program and arguments; not empty
  bool is_prefix_wanted = true;      // "[rank N] " before each line of output
  bool may_restart = true;           // a lost process that others would meet again
  bool waits_for_gang = false;       // ranks meet by Horovod, once the pods of all are there
  // Modules that an interpreter is kept with, to start processes at once; then the command is one
  // of ParsePythonCommand's. Empty: none.
  std::vector<std::string> warm;
  Logger* logger = nullptr;
};

// `lockstep-runtime run -- COMMAND`: supervises any program with the environment of a job's worker,
// and serves the pod's status meanwhile. Outside a job the program runs with its environment as it
// is. Returns the exit code to end with. Thread: the main thread.
int RunCommand(const EnvironmentMap& variables, const RunCommandOptions& options);

}  // namespace lockstep::runtime
