#pragma once

#include <string>

#include "operator/convert/foreign_object.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// Merges what is left of `patch` into `target`, which stands at `of_role` in the role of `pod`, as
// the API server merges patches (strategically), and Kubeflow's operator with it: objects field by
// field; lists of named things by name, where the later of one name is taken whole; of all else the
// patch takes the place. What gives way to something else is noted where it stands.
void ApplyPatch(ForeignObject* patch, const std::string& of_role, Json* target, ConvertedPod* pod);

}  // namespace lockstep::control
