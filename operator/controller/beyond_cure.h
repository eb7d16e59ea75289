#pragma once

#include "operator/kube/request.h"

namespace lockstep::control {

// Whether no later try can cure it: the server's own validation finds fault with fields of the pod
// that we built, or cannot read it as a pod. What webhooks and policies say, with whatever code,
// may change any moment; they name no field, or speak under their own name.
bool IsBeyondCure(const kube::Reply& reply);

}  // namespace lockstep::control
