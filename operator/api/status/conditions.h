#pragma once

#include <string>
#include <string_view>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// The condition of that type; null when it was never set.
const Condition* FindCondition(const LifecycleStatus& status, ConditionType type);

// Whether the condition was set and is true.
bool IsTrue(const LifecycleStatus& status, ConditionType type);

// Whether the job has succeeded or failed: nothing but its removal can happen to it any more.
bool HasEnded(const LifecycleStatus& status);

// Reasons of Scheduled while it is true that are worth a word in tables.
inline constexpr std::string_view kReasonManifestChanged = "ManifestChanged";
inline constexpr std::string_view kReasonPodWaits = "PodWaits";
inline constexpr std::string_view kReasonPodElsewhere = "PodElsewhere";
inline constexpr std::string_view kReasonJobDeleted = "JobDeleted";

// Reasons of conditions that became false when a gang went, and that stay until the next one runs.
// Of Scheduled, the first stands while its pods are leaving.
inline constexpr std::string_view kReasonPreempted = "Preempted";
inline constexpr std::string_view kReasonSuspended = "JobSuspended";

// Reasons of Failed for jobs that a limit of time has ended.
inline constexpr std::string_view kReasonDeadlineExceeded = "DeadlineExceeded";
inline constexpr std::string_view kReasonSchedulingTimeout = "SchedulingTimeout";

// Whether the job has failed because of a limit of time, its own or its queue's.
bool HasEndedByLimit(const LifecycleStatus& status);

// What to set: see SetCondition.
struct ConditionChange {
  ConditionType type = ConditionType::kCreated;
  bool is_true = true;
  std::string reason;
  std::string message;
};

// The status with the condition set. Keeps the rules:
// - Succeeded and Failed exclude each other and latch: once one is true, no change is taken.
// - Succeeded or Failed becoming true makes Running, Restarting and Suspended false, and is what
//   Scheduled says from then on where that is false: what it was waiting for is past.
// - Running, Restarting and Suspended exclude each other: one becoming true makes the others false.
// - `last_transition` moves only when true/false does; reason and message are always taken over.
// Returns whether anything changed.
bool SetCondition(LifecycleStatus* status, const ConditionChange& change, WallTime now);

// One word for tables:
//   Succeeded, Failed  it has ended, for good
//   Stalled            the operator cannot read it, and leaves all as it is
//   Suspended          it was asked to stand still: no pods
//   Running            all its ranks run
//   Restarting         it ran, and is being brought back
//   Starting           its gang has places, and not all pods run yet
//   Waiting            it has no places, for want of room or for a pause after a rollback
std::string_view StateWord(const LifecycleStatus& status);

}  // namespace lockstep::control
