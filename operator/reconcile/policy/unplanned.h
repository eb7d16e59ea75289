#pragma once

#include <string>

#include "operator/api/training_job.h"

namespace lockstep::control {

// What the manifest says about placement, is allowed, and no plan heeds, as one sentence that names
// each field; empty when there is nothing. Such things are not defeated: the cluster's scheduler or
// the kubelet still keeps them, and the gang is rolled back where they forbid the planned node.
std::string DescribeUnplanned(const TrainingJobSpec& spec);

}  // namespace lockstep::control
