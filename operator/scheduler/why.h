#pragma once

#include <optional>

#include "operator/scheduler/cluster_state.h"

namespace lockstep::control {

// Whether no domain could ever hold the gang as its topology asks, by counting what would fit if
// only strangers held anything; empty: that does not tell. Cost: one comparison for each shape and
// domain.
std::optional<Unschedulable> WhyNoDomain(const NodeLedger& nodes, const GangRecord& gang);

// What is missing for a gang that has no place now, counted: a resource, nodes that let it in, or
// room in one domain of the level that it requires. `reached_limit`: a search was given up, and
// counting finds nothing. Cost: some passes over the groups of nodes.
Unschedulable WhyNoRoom(const NodeLedger& nodes, const GangRecord& gang, bool reached_limit);

}  // namespace lockstep::control
