#pragma once

#include <memory>
#include <vector>

#include "operator/scheduler/state/state_event.h"

namespace lockstep::control {

// What brings an empty state of the same levels to where this one is: nodes and what is held of
// them, queues, gangs. What was said of why gangs wait is left out.
std::vector<StateEvent> EventsOf(const ClusterState& state);

// One of its own: rounds of both come to the same operations. Nobody listens to it.
// Cost: in all that there is.
std::unique_ptr<ClusterState> CopyOf(const ClusterState& state);

}  // namespace lockstep::control
