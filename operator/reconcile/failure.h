#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/reconcile/gang_view.h"
#include "operator/reconcile/pass.h"
#include "operator/reconcile/policy/restart_policy.h"

namespace lockstep::control {

// One member of the gang that is no good any more, and what its role's policy asks for.
struct Failure {
  TaskId task;
  std::optional<int> rank;  // of the pod's first process
  std::string pod_name;
  const kube::Pod* pod = nullptr;  // null when it is gone
  std::string cause;               // the key under which restarts are counted
  FailureResponse response = FailureResponse::kRestart;
  std::string sentence;  // "pod mnist-worker-1 (rank 1) killed by SIGKILL (exit code 137)"
};

// All members that failed, vanished, hang, or did not come to run in time; in task order. Members
// that finished and are to be started again count as well.
std::vector<Failure> FindFailures(const Pass& pass, const GangView& view);

}  // namespace lockstep::control
