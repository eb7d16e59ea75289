#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "operator/resources/node_affinity.h"

namespace lockstep::control {

// Reads what a pod spec's `affinity` requires of nodes. What it prefers stays between the user and
// nobody: each pod goes to the one node that was planned for it. What it requires of other pods is
// refused, and so are topologySpreadConstraints that must be kept: the plan does not know them, and
// the node it names would defeat them silently.
std::vector<NodeTerm> ReadNodeAffinity(ObjectReader& pod_spec, std::vector<Error>* errors);

}  // namespace lockstep::control
