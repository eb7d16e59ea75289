#include "operator/reconcile/policy/gang_restart.h"

#include <algorithm>

#include "common/base/check.h"
#include "operator/reconcile/policy/budget.h"

namespace lockstep::control {

const Failure& OriginOf(const std::vector<Failure>& failures, bool is_training) {
  LOCKSTEP_CHECK(!failures.empty(), "the origin of no failure");
  const FailureResponse first = is_training ? FailureResponse::kFailJob : FailureResponse::kRestart;
  const auto found = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
    return failure.response == first;
  });
  return found == failures.end() ? failures.front() : *found;
}

void GiveUpGang(Pass* pass) {
  TrainingJobStatus* const status = pass->mutable_status();
  status->attempt = status->attempt.Next();
  status->epoch = status->epoch.Next();
  status->placement.clear();
}

void RestartGang(const Failure& origin, Pass* pass) {
  TrainingJobStatus* const status = pass->mutable_status();
  CountRestart(origin.cause, status);
  pass->Count(Metric::kRestarts, origin.cause);
  GiveUpGang(pass);
  const std::string message = origin.sentence + ", cause " + origin.cause + "; restart " +
                              std::to_string(CountedRestarts(*status)) + " of " +
                              std::to_string(pass->spec().run_policy.backoff_limit);
  pass->Set({ConditionType::kScheduled, false, "GangRestart", message});
  pass->Set({ConditionType::kRestarting, true, "GangRestart", message}, EventType::kWarning);
}

}  // namespace lockstep::control
