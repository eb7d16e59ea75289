#pragma once

#include "common/json/json.h"

namespace lockstep::control {

// Fills in what the `restricted` pod security level asks of a container, field by field where
// neither it nor its pod says anything: not root, the runtime's seccomp profile, no capabilities,
// no way to gain privileges. A container that says it is privileged or runs as root
// (`runAsUser: 0`, `runAsNonRoot: false`) is left as it is: half of the fields would not admit it,
// and would break it.
// `pod_security` is the pod's securityContext. Values of a wrong type are left to the API server.
void RestrictContainer(const Json& pod_security, Json* container);

}  // namespace lockstep::control
