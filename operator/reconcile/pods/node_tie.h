#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What a pod's `spec` says of where it is to stand is what its template says, and this.

// Required node affinity for the one node.
void PinToNode(const std::string& node, Json* spec);

// Required node affinity for any but these.
void KeepFromNodes(const std::vector<std::string>& nodes, Json* spec);

// Gives a pod of the gang's PodGroup the same priority class. From Kubernetes 1.37 on
// kube-scheduler places none of the pods otherwise, so what the pod's template says does not count.
void GiveGroupsPriority(const TrainingJob& job, Json* pod_spec);

}  // namespace lockstep::control
