#pragma once

#include <string>

#include "common/json/json.h"
#include "operator/convert/conversion.h"

namespace lockstep::control {

// Notes where pods' variables, commands, affinity and the like name what only Kubeflow's operators
// make: the labels of their pods, and the hosts of their job. `spec` is the foreign one, `job` what
// was made of it: what is no longer named there is not told of.
void NoteKubeflowNames(const Json& spec, const Json& job, Conversion* conversion);

// Has the affinity of a pod to other pods select them by our labels where it names those that
// Kubeflow's operators give them and `metadata` does not; notes it at `path`, which is that of the
// affinity.
void SelectByOurLabels(const Json& metadata,
                       const std::string& path,
                       Json* pod_spec,
                       Conversion* conversion);

}  // namespace lockstep::control
