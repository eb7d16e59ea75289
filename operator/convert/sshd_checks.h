#pragma once

#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// An MPIJob's worker ran sshd, and its probes and hooks were made beside that. Those that look for
// sshd, or start it, are taken out of the container that trains, as none runs there any more and a
// pod would be ended for want of it; the others are kept. Both are noted.
void DropChecksOfSshd(ConvertedPod* pod, Conversion* conversion);

}  // namespace lockstep::control
