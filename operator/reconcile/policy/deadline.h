#pragma once

#include <chrono>
#include <optional>

#include "common/base/time.h"
#include "operator/api/training_job.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A gang whose pods do not all run by then is rolled back. Choice: an image of several gigabytes is
// pulled in that time.
inline constexpr std::chrono::minutes kGangStartTimeout{10};

// The moment at which the job has run too long; null without a limit, or before it started.
std::optional<WallTime> ActiveDeadline(const TrainingJob& job);

// The moment at which a waiting gang has waited too long for room; null without a limit, or while
// it does not wait.
std::optional<WallTime> SchedulingDeadline(const TrainingJob& job);

// The moment by which the pod of a placement must run: replacementTimeout for the successor of a
// lost rank, kGangStartTimeout for all others.
WallTime StartDeadline(const TrainingJob& job, const PodPlacement& placement, const Member& member);

// Whether `member` still has to come to run.
bool IsStarting(const Member& member);

}  // namespace lockstep::control
