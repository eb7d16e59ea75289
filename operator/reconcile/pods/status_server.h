#pragma once

#include "common/json/json.h"

namespace lockstep::control {

// Declares the port of the status server that our runtime has in the container, unless the template
// does: the Prometheus Operator's PodMonitor finds only pods that declare it. `is_probed`: the
// kubelet asks the server whether it is alive, unless the template has a probe of its own.
void DeclareStatusServer(bool is_probed, Json* container);

}  // namespace lockstep::control
