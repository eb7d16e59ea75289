#pragma once

#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/kube/decode.h"
#include "operator/resources/node_usage.h"
#include "operator/view/stored_job.h"

namespace lockstep::control {

// What is held under one job's name.
struct JobUsage {
  UsageByNode own;        // by its pods, and promised to those that are still to come
  UsageByNode strangers;  // by pods that carry its name but are not its own
};

// `job` is null when there is none of that name; then all its pods are strangers. `reserved` is the
// status that it is about to have, or null: until that is written, both that and the present one
// count. `pods` are all that carry its name.
JobUsage UsageOf(const kube::Item<StoredJob>* job,
                 const TrainingJobStatus* reserved,
                 const std::vector<const kube::Item<kube::Pod>*>& pods);

// The name of the pod that has this place in an attempt of the job.
std::string PlacedPodName(const std::string& job, Attempt attempt, const PodPlacement& placement);

}  // namespace lockstep::control
