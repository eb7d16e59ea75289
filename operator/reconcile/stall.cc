#include "operator/reconcile/stall.h"

#include <string>

#include "operator/api/conditions.h"
#include "operator/reconcile/act/late_change.h"

namespace lockstep::control {
namespace {

constexpr const char* kReason = "NotUnderstood";

// Whether nothing was ever made for the job: Created is the first that is said of one that is read.
bool IsUntouched(const TrainingJobStatus& status) {
  return status.unreadable == nullptr && !HasEnded(status) &&
         FindCondition(status, ConditionType::kCreated) == nullptr;
}

}  // namespace

Decision StallJob(const TrainingJob& job, const Observed& observed, WallTime now) {
  const std::string& problem = observed.job_problem;
  Decision decision;
  decision.status = job.status;
  const bool is_readable = job.status.unreadable == nullptr;
  if (is_readable && HasEnded(job.status) &&
      job.status.observed_generation != job.metadata.generation) {
    NoteLateChange(&decision.status);
  }
  if (is_readable) {
    decision.status.observed_generation = job.metadata.generation;
    decision.status.queue.reset();  // nobody gives it a place
  }
  if (IsUntouched(job.status) && !observed.is_job_newer) {
    if (IsTrue(job.status, ConditionType::kStalled)) {
      SetCondition(&decision.status, {ConditionType::kStalled, false, "InvalidJob", problem}, now);
    }
    SetCondition(&decision.status, {ConditionType::kFailed, true, "InvalidJob", problem}, now);
    decision.status.completion_time = now;
    decision.events.push_back({EventType::kWarning, "InvalidJob", problem});
    decision.metrics.push_back({Metric::kJobsFinished, "failed", 1});
    return decision;
  }
  const std::string message = "left as it is: " + problem;
  if (SetCondition(&decision.status, {ConditionType::kStalled, true, kReason, message}, now)) {
    decision.events.push_back({EventType::kWarning, kReason, message});
  }
  return decision;
}

bool EndStall(TrainingJobStatus* status, WallTime now) {
  return IsTrue(*status, ConditionType::kStalled) &&
         SetCondition(
             status,
             {ConditionType::kStalled, false, "Understood", "manifest and status are read"},
             now);
}

}  // namespace lockstep::control
