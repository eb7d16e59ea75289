#pragma once

#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/contract/environment/environment.h"

namespace lockstep::runtime {

struct TrainProcessesOptions {
  std::vector<std::string> command;  // this program and its arguments, as for `train`
  bool may_restart = true;           // whether a lost process has a successor in the pod
  Logger* logger = nullptr;
};

// Whether the pod that `variables` describe trains in several processes.
bool HasSeveralProcesses(const EnvironmentMap& variables);

// `lockstep-runtime train` in a pod with several processes: runs each as a process of its own,
// below this one, which serves the pod's status, passes on what the operator says, and writes the
// pod's last words. Returns the pod's exit code.
//
// A process that a signal ends has a successor in the pod while the others run on, as long as steps
// are made between two such losses; else the pod ends as the process did.
// Precondition: HasSeveralProcesses. Thread: the main thread, before any other.
int TrainProcesses(const EnvironmentMap& variables, const TrainProcessesOptions& options);

}  // namespace lockstep::runtime
