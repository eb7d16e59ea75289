#pragma once

#include "common/base/error.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// Whether the server will not have it: a quota, an admission rule, or it is malformed.
bool IsRefusal(const Error& error);

// Whether the server could not say: 5xx, as where an admission webhook is down that has to be
// asked, or no answer, as where one takes as long as we wait.
bool HasServerFailed(const kube::CallResult& result);

// Whether no later try can cure it: the server's own validation finds fault with fields of the pod
// that we built, or cannot read it as a pod. What webhooks and policies say, with whatever code,
// may change any moment; they name no field, or speak under their own name.
bool IsBeyondCure(const kube::Reply& reply);

}  // namespace lockstep::control
