#include "operator/reconcile/failure/restart_policy.h"

namespace lockstep::control {

FailureResponse ResponseTo(RestartPolicy policy, Outcome outcome, bool is_rank) {
  if (outcome == Outcome::kSuccess) {
    return policy == RestartPolicy::kAlways && !is_rank ? FailureResponse::kRestart
                                                        : FailureResponse::kNone;
  }
  if (policy == RestartPolicy::kNever) {
    return FailureResponse::kFailJob;
  }
  if (outcome == Outcome::kPermanent && policy == RestartPolicy::kExitCode) {
    return FailureResponse::kFailJob;
  }
  return FailureResponse::kRestart;
}

}  // namespace lockstep::control
