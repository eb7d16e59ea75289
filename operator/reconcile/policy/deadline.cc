#include "operator/reconcile/policy/deadline.h"

#include <algorithm>

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

WallTime StartDeadline(const TrainingJob& job,
                       const PodPlacement& placement,
                       const Member& member,
                       WallTime now) {
  if (member.rank.has_value() && member.number.incarnation.value() > 0) {
    return placement.since + job.spec.recovery.replacement_timeout;
  }
  const std::chrono::seconds timeout = job.spec.scheduling.start_timeout;
  WallTime progress = placement.since;
  if (member.pod != nullptr) {
    const kube::PodStatus& status = member.pod->status;
    // The kubelet's clock is not ours: what it says counts from the placement until now.
    progress = status.is_initializing ? std::max(now, placement.since)
                                      : std::clamp(status.progress_at.value_or(placement.since),
                                                   placement.since,
                                                   std::max(now, placement.since));
  }
  return std::min(progress + timeout, placement.since + kStartExtensionMax * timeout);
}

bool IsStarting(const Member& member) {
  return member.state == MemberState::kNotSeen || member.state == MemberState::kPending;
}

}  // namespace lockstep::control
