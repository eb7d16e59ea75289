#pragma once

#include <cstdint>

#include "operator/kubeclient/kube/json_scan.h"
#include "operator/kubeclient/kube/objects.h"

// For the decoders of this folder.
namespace lockstep::control::kube {

// The amounts of a map of quantities. "pods" is none of them: it goes to `pod_count` where that is
// not null. Throws scan::Problem.
ResourceVector ReadResourceVector(scan::Value value, int64_t* pod_count = nullptr);

}  // namespace lockstep::control::kube
