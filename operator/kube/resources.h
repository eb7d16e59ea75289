#pragma once

#include <cstdint>

#include "operator/kube/json_scan.h"
#include "operator/kube/objects.h"

// For the decoders of this folder.
namespace lockstep::control::kube {

// "cpu", "memory" and "nvidia.com/gpu" of a map of quantities, and where `pod_count` is not null
// "pods"; others are left out. Throws scan::Problem.
ResourceList ReadResourceList(scan::Value value, int64_t* pod_count = nullptr);

}  // namespace lockstep::control::kube
