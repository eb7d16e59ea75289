#include "operator/reconcile/lifecycle/suspension.h"

#include <string>

#include "operator/api/conditions.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {

void Suspend(DecisionBuilder* builder) {
  NoteRunTime(builder);
  if (!builder->status().placement.empty()) {
    GiveUpGang(builder);
  }
  builder->mutable_status()->waiting_since.reset();
  builder->mutable_status()->preempted_at.reset();
  const std::string message = "runPolicy.suspend is set: no pod runs";
  const std::string reason(kReasonSuspended);
  builder->Set({ConditionType::kScheduled, false, reason, message});
  builder->Set({ConditionType::kSuspended, true, reason, message});
}

void StartOrResume(DecisionBuilder* builder) {
  if (IsTrue(builder->status(), ConditionType::kSuspended)) {
    const ConditionChange resumed = {
        ConditionType::kSuspended, false, "JobResumed", "runPolicy.suspend is not set"};
    builder->Set(resumed);
    SetCondition(builder->mutable_status(),
                 {ConditionType::kScheduled,
                  false,
                  resumed.reason,
                  "the job was resumed and waits to be scheduled"},
                 builder->now());
    builder->mutable_status()->start_time.reset();
  }
  if (builder->status().placement.empty() && !builder->status().waiting_since.has_value()) {
    builder->mutable_status()->waiting_since = builder->now();
  }
}

}  // namespace lockstep::control
