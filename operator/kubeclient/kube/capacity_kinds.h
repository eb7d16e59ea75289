#pragma once

#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::kube {

// Kinds by which cluster autoscalers are asked for room.

inline constexpr ResourceType kPodTemplates{"", "v1", "podtemplates"};
inline constexpr ResourceType kProvisioningRequests{
    "autoscaling.x-k8s.io", "v1", "provisioningrequests"};

}  // namespace lockstep::control::kube
