#include "operator/reconcile/lifecycle/deadline.h"

#include <algorithm>
#include <chrono>

#include "operator/api/status/conditions.h"

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
std::optional<std::chrono::seconds> LeftByQueue(const TrainingJobStatus& status,
                                                const std::optional<RunTimeLimit>& of_queue) {
  if (!of_queue.has_value()) {
    return std::nullopt;
  }
  return std::max(std::chrono::seconds(0), of_queue->limit - status.ran_before);
}

// Whether it is the queue's limit that ends first.
bool IsQueuesLimit(const RunPolicy& policy,
                   const TrainingJobStatus& status,
                   const std::optional<RunTimeLimit>& of_queue) {
  const std::optional<std::chrono::seconds> left = LeftByQueue(status, of_queue);
  return left.has_value() && (!policy.active_deadline || *left < *policy.active_deadline);
}

}  // namespace

std::optional<std::chrono::seconds> RunTimeMax(const RunPolicy& policy,
                                               const TrainingJobStatus& status,
                                               const std::optional<RunTimeLimit>& of_queue) {
  return IsQueuesLimit(policy, status, of_queue) ? LeftByQueue(status, of_queue)
                                                 : policy.active_deadline;
}

std::optional<WallTime> ActiveDeadline(const RunPolicy& policy,
                                       const TrainingJobStatus& status,
                                       const std::optional<RunTimeLimit>& of_queue) {
  const std::optional<std::chrono::seconds> most = RunTimeMax(policy, status, of_queue);
  if (!most.has_value()) {
    return std::nullopt;
  }
  if (!status.start_time.has_value()) {
    const bool may_never_run = most->count() == 0 && !status.preempted_at.has_value();
    return may_never_run ? status.waiting_since : std::nullopt;
  }
  const WallTime deadline = *status.start_time + *most;
  // Where the limit has become a shorter one since, that may have been reached before.
  const bool stands_still = status.preempted_at.has_value() && deadline > *status.preempted_at;
  return stands_still ? std::nullopt : std::optional(deadline);
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
std::string DescribeRunTimeLimit(const RunPolicy& policy,
                                 const TrainingJobStatus& status,
                                 const std::optional<RunTimeLimit>& of_queue) {
  if (!IsQueuesLimit(policy, status, of_queue)) {
    return "the job ran longer than runPolicy.activeDeadlineSeconds, " +
           std::to_string(policy.active_deadline->count()) + " s";
  }
  return "the job ran for the " + std::to_string(of_queue->limit.count()) + " s that queue " +
         of_queue->queue + " allows (maxRuntimeSeconds)";
}

bool HasRunTooLong(DecisionBuilder* builder) {
  const RunPolicy& policy = builder->spec().run_policy;
  const std::optional<RunTimeLimit>& of_queue = builder->observed().run_time_limit;
  const std::optional<WallTime> deadline = ActiveDeadline(policy, builder->status(), of_queue);
  if (!deadline.has_value()) {
    return false;
  }
  if (builder->now() < *deadline) {
    builder->WakeAt(*deadline);
    return false;
  }
  builder->Fail(std::string(kReasonDeadlineExceeded),
                DescribeRunTimeLimit(policy, builder->status(), of_queue));
  return true;
}

void NoteRunTime(DecisionBuilder* builder) {
  const TrainingJobStatus& status = builder->status();
  if (IsTrue(status, ConditionType::kSuspended) || !status.start_time.has_value()) {
    return;
  }
  const Duration ran = status.preempted_at.value_or(builder->now()) - *status.start_time;
  builder->mutable_lifecycle()->ran_before +=
      std::chrono::floor<std::chrono::seconds>(std::max(Duration(0), ran));
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
                "the gang was not placed within scheduling.timeoutSeconds: " + why);
  return true;
}

}  // namespace lockstep::control
