#pragma once

#include <string>
#include <string_view>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// An API server's words about a pod that PodManifest made of the role's template, with the paths of
// fields as they stand in the job's manifest: "spec.containers[0].env[44].value" is
// "spec.roles[0].template.spec.containers[0].env[3].value", as the operator's variables come first.
// Paths of what the template does not say stay those of the pod.
std::string InTermsOfTemplate(std::string_view words,
                              const Json& pod_manifest,
                              const TrainingJob& job,
                              Role role);

}  // namespace lockstep::control
