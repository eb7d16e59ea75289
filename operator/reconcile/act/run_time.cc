#include "operator/reconcile/act/run_time.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "operator/api/conditions.h"
#include "operator/reconcile/policy/deadline.h"

namespace lockstep::control {

// Of two limits that end at one moment the job's own is told: its users can change that.
std::string DescribeRunTimeLimit(const TrainingJob& job,
                                 const std::optional<RunTimeLimit>& of_queue) {
  if (!IsQueuesLimit(job, of_queue)) {
    return "the job ran longer than runPolicy.activeDeadlineSeconds, " +
           std::to_string(job.spec.run_policy.active_deadline->count()) + " s";
  }
  return "the job ran for the " + std::to_string(of_queue->limit.count()) + " s that queue " +
         of_queue->queue + " allows (maxRuntimeSeconds)";
}

bool HasRunTooLong(DecisionBuilder* builder) {
  TrainingJob started = builder->job();
  started.status = builder->status();
  const std::optional<WallTime> deadline =
      ActiveDeadline(started, builder->observed().run_time_limit);
  if (!deadline.has_value()) {
    return false;
  }
  if (builder->now() < *deadline) {
    builder->WakeAt(*deadline);
    return false;
  }
  builder->Fail(std::string(kReasonDeadlineExceeded),
                DescribeRunTimeLimit(started, builder->observed().run_time_limit));
  return true;
}

void NoteRunTime(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  if (IsTrue(*status, ConditionType::kSuspended) || !status->start_time.has_value()) {
    return;
  }
  const Duration ran = status->preempted_at.value_or(builder->now()) - *status->start_time;
  status->ran_before += std::chrono::floor<std::chrono::seconds>(std::max(Duration(0), ran));
}

}  // namespace lockstep::control
