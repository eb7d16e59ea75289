#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "operator/allocator/usage_ledger.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/resources/node_usage.h"
#include "operator/view/stored/stored_job.h"

namespace lockstep::control {

// `job` is null when there is none of that name; then all its pods are strangers or orphans.
// `reserved` is the status that it is about to have, or null: until that is written, both that and
// the present one count. `pods` are all that carry its name. `is_served`: as of PodStand.
JobUsage UsageOf(const kube::Item<StoredJob>* job,
                 const TrainingJobStatus* reserved,
                 const std::vector<const kube::Item<kube::Pod>*>& pods,
                 bool is_served = true);

// The name of the pod that has this place in an attempt of the job.
std::string PlacedPodName(const std::string& job, Attempt attempt, const PodPlacement& placement);

}  // namespace lockstep::control
