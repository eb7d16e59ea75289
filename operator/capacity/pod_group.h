#pragma once

#include <string>

#include "common/base/strong_id.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/pod_groups.h"

namespace lockstep::control {

// The PodGroup (scheduling.k8s.io) by which kube-scheduler places a gang, all or none, in each
// version of that API.

// "{job}-{first 8 characters of the uid}-{attempt}": every gang has one of its own, as most of it
// cannot be changed, and one that still ends is in nobody's way.
std::string PodGroupName(const Metadata& job, Attempt attempt);

// That of the gang which the status places. Its pods are placed when there is room for all of them.
// Precondition: job.status.pod_group is its name.
Json PodGroupManifest(const TrainingJob& job, kube::PodGroupVersion version);

// What kube-scheduler says of a PodGroup that it has not placed. `conditions`: those of the stored
// object, in that version; may be null. Empty: it has placed it, or has said nothing.
std::string WhyNotPlaced(const Json& conditions, kube::PodGroupVersion version);

}  // namespace lockstep::control
