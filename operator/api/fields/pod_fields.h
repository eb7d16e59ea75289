#pragma once

#include "common/json/json.h"

namespace lockstep::control {

// Fields of a container, of its resources, and of a pod's spec, that the operator hands on as they
// are: marks them as known. Only their outermost shape is checked; the rest is between the user and
// Kubernetes. Source: core/v1 Container, ResourceRequirements and PodSpec, Kubernetes 1.36.
void PassContainerFields(ObjectReader& container);
void PassInitContainerFields(ObjectReader& container);
void PassResourceFields(ObjectReader& resources);
void PassPodFields(ObjectReader& spec);

}  // namespace lockstep::control
