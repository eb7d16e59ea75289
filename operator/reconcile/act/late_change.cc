#include "operator/reconcile/act/late_change.h"

#include <string>

namespace lockstep::control {

void RefuseLateChange(DecisionBuilder* builder) {
  const std::string too_late =
      "; a later change of spec has no effect: delete the job and create it anew "
      "(runPolicy.cleanPodPolicy and ttlSecondsAfterFinished are heeded)";
  for (Condition& condition : builder->mutable_status()->conditions) {
    const bool is_end =
        condition.type == ConditionType::kSucceeded || condition.type == ConditionType::kFailed;
    if (is_end && condition.is_true && condition.message.find(too_late) == std::string::npos) {
      condition.message += too_late;
      builder->Say(EventType::kWarning, "ChangeIgnored", "the job has ended" + too_late);
    }
  }
}

}  // namespace lockstep::control
