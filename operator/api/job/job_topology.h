#pragma once

#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// The job as the contract sees it. Sound (CheckTopology) for every job that passed validation.
JobTopology TopologyOf(const TrainingJob& job, const Addressing& addressing);

}  // namespace lockstep::control
