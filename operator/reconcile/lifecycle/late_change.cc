#include "operator/reconcile/lifecycle/late_change.h"

#include <string>

namespace lockstep::control {

namespace {

constexpr const char* kTooLate =
    "; a later change of spec has no effect: delete the job and create it again (only changes of "
    "runPolicy.cleanPodPolicy and runPolicy.ttlSecondsAfterFinished still take effect)";

}  // namespace

bool NoteLateChange(LifecycleStatus* status) {
  bool is_new = false;
  for (Condition& condition : status->conditions) {
    const bool is_end =
        condition.type == ConditionType::kSucceeded || condition.type == ConditionType::kFailed;
    if (is_end && condition.is_true && condition.message.find(kTooLate) == std::string::npos) {
      condition.message += kTooLate;
      is_new = true;
    }
  }
  return is_new;
}

void RefuseLateChange(DecisionBuilder* builder) {
  if (NoteLateChange(builder->mutable_lifecycle())) {
    builder->Say(EventType::kWarning, "ChangeIgnored", std::string("the job has ended") + kTooLate);
  }
}

}  // namespace lockstep::control
