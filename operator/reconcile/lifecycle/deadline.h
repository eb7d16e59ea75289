#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"
#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Since when the job waits after others went first; null while it does not. An earlier version
// keeps `preemptedAt` as it found it, while the gang runs and in waits of other causes, and does
// not set it: what the conditions say is believed.
std::optional<WallTime> PreemptedAt(const TrainingJobStatus& status);

// How long the job may have its places from its start, or resume, on: the shorter of
// runPolicy.activeDeadlineSeconds and what is left of what its queue lets its jobs run, which a
// suspension does not give back. At least 0. Null: neither says.
std::optional<std::chrono::seconds> RunTimeMax(const RunPolicy& policy,
                                               const TrainingJobStatus& status,
                                               const std::optional<RunTimeLimit>& of_queue);

// The moment at which the job has run too long. Null without a limit, and before its first gang was
// placed. Null also while the job waits after an eviction, as that time is not counted, unless it
// had run too long before the eviction. A job that is resumed with nothing left of its queue's
// limit has run too long since it waits.
std::optional<WallTime> ActiveDeadline(const RunPolicy& policy,
                                       const TrainingJobStatus& status,
                                       const std::optional<RunTimeLimit>& of_queue);

// The moment at which the job has waited too long for a gang that runs; null without a limit, or
// while it does not wait, or waits after others went first. A gang that was placed and rolled back
// does not begin the wait anew.
std::optional<WallTime> SchedulingDeadline(const SchedulingSpec& scheduling,
                                           const TrainingJobStatus& status);

// Whether the job has had its places for as long as it may, by its own limit or its queue's: then
// it has failed, and is told by which. Else it is looked at again when it has.
bool HasRunTooLong(DecisionBuilder* builder);

// By which limit the job, which has one, has run too long.
std::string DescribeRunTimeLimit(const RunPolicy& policy,
                                 const TrainingJobStatus& status,
                                 const std::optional<RunTimeLimit>& of_queue);

// Writes down what the job ran until now, when it is suspended: its queue's limit counts that.
void NoteRunTime(DecisionBuilder* builder);

// Whether the time to wait for a gang that runs is over: then the job has failed, for `why`.
bool HasWaitedTooLong(const std::string& why, DecisionBuilder* builder);

}  // namespace lockstep::control
