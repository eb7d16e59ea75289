#pragma once

#include <string>

#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Whether the tasks that are placed are those that the manifest asks for. They differ when it was
// changed after the gang was placed.
bool HasAskedSize(const TrainingJob& job);

// The job with as many replicas of each role as are placed.
TrainingJob AsPlaced(const TrainingJob& job);

// "2 workers and 1 evaluator": what the manifest asks for.
std::string DescribeSize(const TrainingJob& job);

}  // namespace lockstep::control
