#pragma once

#include <string>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// What a pod template says in fields that pass through to Kubernetes and yet decide something.

// The template's pod spec as written; an empty object without one. Valid as long as the template.
const Json& PodSpecOf(const PodTemplate& pod);

// The container that the operator looks after, the one named "trainer" or else the first, in a pod
// spec as written; null when there is none.
const Json* FindTrainer(const Json& pod_spec);

// Whether the container mounts something at the absolute `path` or above it.
bool HasMountFor(const Json& container, const std::string& path);

// Whether `path` is `folder` or lies below it.
bool IsWithinFolder(const std::string& path, std::string folder);

// Whether any container of the pod asks for a device: a resource of a device plugin, whichever its
// name, or a claim.
bool AsksForDevice(const Json& pod_spec);

}  // namespace lockstep::control
