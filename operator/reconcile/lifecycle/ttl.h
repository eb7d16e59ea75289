#pragma once

#include <optional>

#include "common/base/time.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// The moment at which a finished job is removed; null when it stays, or has not finished.
std::optional<WallTime> ExpiryTime(const TrainingJob& job);

}  // namespace lockstep::control
