#include "operator/reconcile/lifecycle/suspension.h"

#include <string>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {

void Suspend(DecisionBuilder* builder) {
  NoteRunTime(builder);
  if (!builder->status().placement.empty()) {
    GiveUpGang(builder);
  }
  builder->mutable_waiting()->waiting_since.reset();
  builder->mutable_waiting()->preempted_at.reset();
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
    builder->SetQuietly({ConditionType::kScheduled,
                         false,
                         resumed.reason,
                         "the job was resumed and waits to be scheduled"});
    builder->mutable_lifecycle()->start_time.reset();
  }
  if (builder->status().placement.empty() && !builder->status().waiting_since.has_value()) {
    builder->mutable_waiting()->waiting_since = builder->now();
  }
}

}  // namespace lockstep::control
