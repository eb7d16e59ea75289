#pragma once

#include <chrono>
#include <optional>

#include "common/base/time.h"
#include "operator/api/training_job.h"
#include "operator/api/training_queue.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Progress extends the time to start up to so many times scheduling.startTimeoutSeconds. Choice: an
// hour by default, in which an init container fetches a data set.
inline constexpr int kStartExtensionMax = 6;

// Since when the job waits after others went first; null while it does not. An earlier version
// keeps `preemptedAt` as it found it, while the gang runs and in waits of other causes, and does
// not set it: what the conditions say is believed.
std::optional<WallTime> PreemptedAt(const TrainingJobStatus& status);

// How long the job may have its places from its start, or resume, on: the shorter of
// runPolicy.activeDeadlineSeconds and what is left of what its queue lets its jobs run, which a
// suspension does not give back. At least 0. Null: neither says.
std::optional<std::chrono::seconds> RunTimeMax(const TrainingJob& job,
                                               const std::optional<RunTimeLimit>& of_queue);

// Whether it is the queue's limit that ends first.
bool IsQueuesLimit(const TrainingJob& job, const std::optional<RunTimeLimit>& of_queue);

// The moment at which the job has run too long; null without a limit, before its first gang was
// placed, and while it waits after others went first: time in the queue is not counted. One that is
// resumed with nothing left of its queue's limit has run too long since it waits.
std::optional<WallTime> ActiveDeadline(const TrainingJob& job,
                                       const std::optional<RunTimeLimit>& of_queue);

// The moment at which the job has waited too long for a gang that runs; null without a limit, or
// while it does not wait, or waits after others went first. A gang that was placed and rolled back
// does not begin the wait anew.
std::optional<WallTime> SchedulingDeadline(const SchedulingSpec& scheduling,
                                           const TrainingJobStatus& status);

// The moment by which the pod of a placement must run: replacementTimeout for the successor of a
// lost rank; for all others startTimeout after the last progress of the pod, within
// kStartExtensionMax.
WallTime StartDeadline(const TrainingJob& job,
                       const PodPlacement& placement,
                       const Member& member,
                       WallTime now);

// Whether `member` still has to come to run.
bool IsStarting(const Member& member);

}  // namespace lockstep::control
