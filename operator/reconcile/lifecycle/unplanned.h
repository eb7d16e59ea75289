#pragma once

#include <string>

#include "operator/api/training_job.h"

namespace lockstep::control {

// What the manifest says about placement, is allowed, and no plan heeds, as one sentence that names
// each field; empty when there is nothing. So it is with a priority class that was deleted while
// the gang has its places; `missing_class` says which, or is empty. Such things are not defeated:
// the cluster's scheduler or the kubelet still keeps them, and the gang is rolled back where they
// forbid the planned node.
std::string DescribeUnplanned(const TrainingJobSpec& spec,
                              const TrainingJobStatus& status,
                              const std::string& missing_class);

}  // namespace lockstep::control
