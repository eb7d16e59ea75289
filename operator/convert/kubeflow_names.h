#pragma once

#include "operator/convert/conversion.h"

namespace lockstep::control {

// Notes where pods' variables, commands, affinity and the like name what only Kubeflow's operators
// make: the labels of their pods, and the hosts of their job. `spec` is the foreign one, `job` what
// was made of it: what is no longer named there is not told of.
void NoteKubeflowNames(const Json& spec, const Json& job, Conversion* conversion);

}  // namespace lockstep::control
