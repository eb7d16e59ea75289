#pragma once

#include "operator/convert/conversion.h"

namespace lockstep::control {

// Notes where pods' variables, commands, affinity and the like name what only Kubeflow's operators
// make: the labels of their pods, and the hosts of the job called `job_name`. `spec` is the foreign
// one.
void NoteKubeflowNames(const Json& spec, const std::string& job_name, Conversion* conversion);

}  // namespace lockstep::control
