#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// status.queue, as the rest of the status: leniently, with every problem and its path. Null where
// `value` is.
std::optional<QueuePosition> DecodeQueuePosition(const Json* value,
                                                 const std::string& path,
                                                 std::vector<Error>* errors);

// Null: nothing is added.
void SetQueuePosition(const std::optional<QueuePosition>& queue, Json* status);

}  // namespace lockstep::control
