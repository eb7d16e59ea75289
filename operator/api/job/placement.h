#pragma once

#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Whose place it is.
TaskId TaskOf(const PodPlacement& placement);

// The task's placement in the current attempt; null when it has none.
const PodPlacement* FindPlacement(const PlacementStatus& status, const TaskId& task);
PodPlacement* FindPlacement(PlacementStatus* status, const TaskId& task);

}  // namespace lockstep::control
