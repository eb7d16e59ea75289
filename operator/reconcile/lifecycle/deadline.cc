#include "operator/reconcile/lifecycle/deadline.h"

#include <algorithm>
#include <chrono>

#include "operator/api/conditions.h"

namespace lockstep::control {

std::optional<WallTime> PreemptedAt(const TrainingJobStatus& status) {
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  const bool waits =
      status.placement.empty() && !HasEnded(status) && scheduled != nullptr && !scheduled->is_true;
  if (!waits) {
    return std::nullopt;
  }
  const WallTime waits_since = scheduled->last_transition;
  if (status.preempted_at.has_value() && *status.preempted_at >= waits_since) {
    return status.preempted_at;
  }
  return scheduled->reason == kReasonPreempted ? std::optional(waits_since) : std::nullopt;
}

namespace {

// What the queue lets the job run yet.
std::optional<std::chrono::seconds> LeftByQueue(const TrainingJob& job,
                                                const std::optional<RunTimeLimit>& of_queue) {
  if (!of_queue.has_value()) {
    return std::nullopt;
  }
  return std::max(std::chrono::seconds(0), of_queue->limit - job.status.ran_before);
}

}  // namespace

bool IsQueuesLimit(const TrainingJob& job, const std::optional<RunTimeLimit>& of_queue) {
  const std::optional<std::chrono::seconds>& own = job.spec.run_policy.active_deadline;
  const std::optional<std::chrono::seconds> left = LeftByQueue(job, of_queue);
  return left.has_value() && (!own.has_value() || *left < *own);
}

std::optional<std::chrono::seconds> RunTimeMax(const TrainingJob& job,
                                               const std::optional<RunTimeLimit>& of_queue) {
  return IsQueuesLimit(job, of_queue) ? LeftByQueue(job, of_queue)
                                      : job.spec.run_policy.active_deadline;
}

std::optional<WallTime> ActiveDeadline(const TrainingJob& job,
                                       const std::optional<RunTimeLimit>& of_queue) {
  const std::optional<std::chrono::seconds> most = RunTimeMax(job, of_queue);
  if (!most.has_value() || job.status.preempted_at.has_value()) {
    return std::nullopt;
  }
  if (!job.status.start_time.has_value()) {
    return most->count() == 0 ? job.status.waiting_since : std::nullopt;
  }
  return *job.status.start_time + *most;
}

std::optional<WallTime> SchedulingDeadline(const SchedulingSpec& scheduling,
                                           const TrainingJobStatus& status) {
  if (!scheduling.timeout.has_value() || !status.waiting_since.has_value() ||
      status.preempted_at.has_value()) {
    return std::nullopt;
  }
  return *status.waiting_since + *scheduling.timeout;
}

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

bool HasWaitedTooLong(const std::string& why, DecisionBuilder* builder) {
  const std::optional<WallTime> deadline =
      SchedulingDeadline(builder->spec().scheduling, builder->status());
  if (!deadline.has_value()) {
    return false;
  }
  if (builder->now() < *deadline) {
    builder->WakeAt(*deadline);
    return false;
  }
  builder->Fail(std::string(kReasonSchedulingTimeout),
                "no room within scheduling.timeoutSeconds: " + why);
  return true;
}

}  // namespace lockstep::control
