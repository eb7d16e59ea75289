#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

// Reads a role's pod template: what the operator uses is checked and typed, what is Kubernetes' own
// passes through in `raw`, and names that Kubernetes does not know are errors, as are fields that
// belong to the operator.
PodTemplate DecodePodTemplate(const Json& value,
                              const std::string& path,
                              std::vector<Error>* errors);

// Where the one container stands under a template: "spec.containers[0]".
inline constexpr std::string_view kContainerPath = "spec.containers[0]";

}  // namespace lockstep::control
