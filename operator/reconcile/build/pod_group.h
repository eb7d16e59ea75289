#pragma once

#include <string>

#include "common/base/strong_id.h"
#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// The PodGroup (scheduling.k8s.io/v1alpha2) by which kube-scheduler places a gang, all or none.

// "{job}-{first 8 characters of the uid}-{attempt}": every gang has one of its own, as none can be
// changed, and one that still ends is in nobody's way.
std::string PodGroupName(const Metadata& job, Attempt attempt);

// That of the gang which the status places. Its pods are placed when there is room for all of them.
// Precondition: job.status.pod_group is its name.
Json PodGroupManifest(const TrainingJob& job);

}  // namespace lockstep::control
