#include "operator/reconcile/policy/relaunch_policy.h"

#include <algorithm>

#include "operator/reconcile/policy/restart_policy.h"

namespace lockstep::control {

bool MayRelaunch(const TrainingJobSpec& spec) {
  if (spec.training.has_value() || spec.strategy == Strategy::kHorovod) {
    return false;
  }
  return std::all_of(spec.roles.begin(), spec.roles.end(), [](const RoleSpec& role) {
    return role.name == Role::kEvaluator ||
           (IsRank(role.name) && role.supervise &&
            ResponseTo(role.restart_policy, Outcome::kRetryable, /*is_rank=*/true) ==
                FailureResponse::kRestart);
  });
}

bool HoldsItsEnd(const TrainingJobSpec& spec, Role role) {
  return IsRank(role) && MayRelaunch(spec);
}

}  // namespace lockstep::control
