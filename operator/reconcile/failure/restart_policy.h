#pragma once

#include "common/contract/status/exit_code.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What one ended process asks of the operator.
enum class FailureResponse {
  kNone,     // its work is done
  kRestart,  // another pod, within the budget of its cause
  kFailJob,
};

// The policy for one role and one way to end:
//
//   outcome      Never     OnFailure   Always      ExitCode
//   success      none      none        none*       none
//   permanent    fail      restart     restart     fail
//   retryable    fail      restart     restart     restart
//   preempted    fail      restart     restart     restart
//   superseded   fail      restart     restart     restart
//
// * A rank that has finished is done under any policy, or no job would ever end; a ps or evaluator
//   under Always is restarted.
// A superseded process that is nevertheless the newest of its rank has met a successor that no
// longer exists: somebody has to take the place.
FailureResponse ResponseTo(RestartPolicy policy, Outcome outcome, bool is_rank);

}  // namespace lockstep::control
