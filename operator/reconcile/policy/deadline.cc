#include "operator/reconcile/policy/deadline.h"

#include "operator/api/conditions.h"

namespace lockstep::control {

std::optional<WallTime> ActiveDeadline(const TrainingJob& job) {
  if (!job.spec.run_policy.active_deadline.has_value() || !job.status.start_time.has_value()) {
    return std::nullopt;
  }
  return *job.status.start_time + *job.spec.run_policy.active_deadline;
}

std::optional<WallTime> SchedulingDeadline(const TrainingJob& job) {
  const Condition* const scheduled = FindCondition(job.status, ConditionType::kScheduled);
  if (!job.spec.scheduling.timeout.has_value() || scheduled == nullptr || scheduled->is_true) {
    return std::nullopt;
  }
  return scheduled->last_transition + *job.spec.scheduling.timeout;
}

WallTime StartDeadline(const TrainingJob& job,
                       const PodPlacement& placement,
                       const Member& member) {
  const bool is_replacement = member.rank.has_value() && member.number.incarnation.value() > 0;
  return placement.since + (is_replacement ? job.spec.recovery.replacement_timeout
                                           : std::chrono::milliseconds(kGangStartTimeout));
}

bool IsStarting(const Member& member) {
  return member.state == MemberState::kNotSeen || member.state == MemberState::kPending;
}

}  // namespace lockstep::control
