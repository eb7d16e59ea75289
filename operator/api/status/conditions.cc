#include "operator/api/status/conditions.h"

#include <algorithm>
#include <array>

namespace lockstep::control {
namespace {

// What a job is doing, of which only one can be so; all of it ends with the job.
constexpr std::array<ConditionType, 3> kActivities = {
    ConditionType::kRunning, ConditionType::kRestarting, ConditionType::kSuspended};

bool IsActivity(ConditionType type) {
  return std::find(kActivities.begin(), kActivities.end(), type) != kActivities.end();
}

bool IsTerminal(ConditionType type) {
  return type == ConditionType::kSucceeded || type == ConditionType::kFailed;
}

// Sets one condition, without a look at the others.
bool Write(LifecycleStatus* status, const ConditionChange& change, WallTime now) {
  const auto found = std::find_if(status->conditions.begin(),
                                  status->conditions.end(),
                                  [&](const Condition& c) { return c.type == change.type; });
  if (found == status->conditions.end()) {
    status->conditions.push_back({change.type, change.is_true, change.reason, change.message, now});
    return true;
  }
  const bool is_same = found->is_true == change.is_true && found->reason == change.reason &&
                       found->message == change.message;
  if (found->is_true != change.is_true) {
    found->last_transition = now;
  }
  found->is_true = change.is_true;
  found->reason = change.reason;
  found->message = change.message;
  return !is_same;
}

}  // namespace

const Condition* FindCondition(const LifecycleStatus& status, ConditionType type) {
  for (const Condition& condition : status.conditions) {
    if (condition.type == type) {
      return &condition;
    }
  }
  return nullptr;
}

bool IsTrue(const LifecycleStatus& status, ConditionType type) {
  const Condition* condition = FindCondition(status, type);
  return condition != nullptr && condition->is_true;
}

bool HasEndedByLimit(const LifecycleStatus& status) {
  const Condition* const failed = FindCondition(status, ConditionType::kFailed);
  return failed != nullptr && failed->is_true &&
         (failed->reason == kReasonDeadlineExceeded || failed->reason == kReasonSchedulingTimeout);
}

bool HasEnded(const LifecycleStatus& status) {
  return IsTrue(status, ConditionType::kSucceeded) || IsTrue(status, ConditionType::kFailed);
}

bool SetCondition(LifecycleStatus* status, const ConditionChange& change, WallTime now) {
  if (HasEnded(*status)) {
    return false;
  }
  if (change.is_true && (IsActivity(change.type) || IsTerminal(change.type))) {
    for (const ConditionType activity : kActivities) {
      if (activity != change.type && IsTrue(*status, activity)) {
        Write(status, {activity, false, change.reason, change.message}, now);
      }
    }
  }
  const Condition* const scheduled = FindCondition(*status, ConditionType::kScheduled);
  if (change.is_true && IsTerminal(change.type) && scheduled != nullptr && !scheduled->is_true) {
    Write(status, {ConditionType::kScheduled, false, change.reason, change.message}, now);
  }
  return Write(status, change, now);
}

std::string_view StateWord(const LifecycleStatus& status) {
  for (const ConditionType type : {ConditionType::kSucceeded,
                                   ConditionType::kFailed,
                                   ConditionType::kStalled,
                                   ConditionType::kSuspended,
                                   ConditionType::kRestarting,
                                   ConditionType::kRunning}) {
    if (IsTrue(status, type)) {
      return ConditionTypeName(type);
    }
  }
  return IsTrue(status, ConditionType::kScheduled) ? "Starting" : "Waiting";
}

}  // namespace lockstep::control
