#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/restart_policy.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// How long all pods of a relaunch may take to end their programs and to start them anew, then the
// gang gets new pods. Choice: programs have 2 s to end, and starting one takes less.
inline constexpr std::chrono::seconds kRelaunchPatience{30};

// One member of the gang that is no good any more, and what its role's policy asks for.
struct Failure {
  TaskId task;
  std::optional<int> rank;  // of the pod's first process
  std::string pod_name;
  const kube::Pod* pod = nullptr;  // null when it is gone
  std::string cause;               // the key under which restarts are counted
  FailureResponse response = FailureResponse::kRestart;
  bool is_node_at_fault = false;     // a successor had better be elsewhere
  bool is_voluntary = false;         // somebody asked the pod to go, or the machine gave its port
                                     // to another process: it costs no budget
  std::optional<WallTime> ended_at;  // by its node's clock, where that said so
  std::string tail;                  // the last lines of its output, where they are known
  std::vector<int> lost_ranks = {};  // the peers whose loss the program says it ended for
  std::vector<int> left_ranks = {};  // of the pod, that had exited 0 of themselves before
  int64_t process_count = 1;         // of the pod: that many ranks, from `rank` on
  std::string sentence;  // "pod mnist-worker-1 (rank 1) killed by SIGKILL (exit code 137)"
};

// Whether the member keeps variables for the built-in trainer. Such a ps never ends by itself: an
// exit 0 is a loss of it, as the workers wait for it.
bool IsTrainersPs(const DecisionBuilder& builder, const Member& member);

// The failure of a member whose pod's process has ended. Precondition: it has a pod.
Failure EndedFailure(const DecisionBuilder& builder, const Member& member);

// All members that failed, vanished, hang, or are cut off; in task order. Members that finished and
// are to be started again count as well; those among `problems` do not. A pod that is no rank and
// is replaced by itself counts when it does not come to run in time.
std::vector<Failure> FindFailures(const DecisionBuilder& builder,
                                  const GangView& view,
                                  const std::vector<StartProblem>& problems);

}  // namespace lockstep::control
