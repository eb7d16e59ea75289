#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operator/api/training_job.h"

namespace lockstep::control {

// Causes of restarts that no exit code tells.
inline constexpr std::string_view kCauseHang = "hang";                   // alive but silent
inline constexpr std::string_view kCauseStartTimeout = "start_timeout";  // never came to run
inline constexpr std::string_view kCauseNotStarted = "not_started";      // or a peer did not

inline constexpr std::string_view kCauseEnded = "ended";  // until its kubelet tells how

// Restarts that cost nothing still end somewhere. Choice: far above what a long job on machines
// that may be taken away sees, low enough that a program that always leaves is found out.
inline constexpr int64_t kUncountedRestartsMax = 1000;

// Whether restarts for this cause count against backoffLimit. Those of a process that left on
// request after a checkpoint, that is to be started again whenever it finishes, whose pod could not
// even start, or that waited in vain for such a pod, do not.
bool IsCounted(std::string_view cause);

// Restarts of the job so far that count against backoffLimit, and those that do not.
int64_t CountedRestarts(const TrainingJobStatus& status);
int64_t UncountedRestarts(const TrainingJobStatus& status);

// Whether one more restart for this cause is within the budget.
bool HasBudget(const TrainingJobStatus& status, int64_t backoff_limit, std::string_view cause);

// Writes one restart into the status, which is stored before the restart happens.
void CountRestart(std::string_view cause, TrainingJobStatus* status);

// How many restarts the status has for one cause.
int64_t RestartsFor(std::string_view cause, const TrainingJobStatus& status);

// One of the restarts counted under `from` had the cause `to`. Precondition: there is one.
void MoveRestart(std::string_view from, std::string_view to, TrainingJobStatus* status);

}  // namespace lockstep::control
