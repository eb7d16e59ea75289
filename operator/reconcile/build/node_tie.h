#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control {

// What a pod's `spec` says of nodes is what its template says, and this.

// Required node affinity for the one node.
void PinToNode(const std::string& node, Json* spec);

// Required node affinity for any but these.
void KeepFromNodes(const std::vector<std::string>& nodes, Json* spec);

}  // namespace lockstep::control
