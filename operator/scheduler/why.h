#pragma once

#include <optional>
#include <string>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Whether no domain could ever hold the gang as its topology asks, by counting what would fit if
// only strangers held anything; empty: that does not tell. Cost: one comparison for each shape and
// domain.
std::optional<Unschedulable> WhyNoDomain(const NodeLedger& nodes, const GangRecord& gang);

// What is missing for a gang that has no place now, counted: a resource, nodes that let it in, or
// room in one domain of the level that it requires. `reached_limit`: a search was given up, and
// counting finds nothing. Cost: some passes over the groups of nodes.
Unschedulable WhyNoRoom(const NodeLedger& nodes, const GangRecord& gang, bool reached_limit);

// "; 32 GPUs are held by pods that do not end: pods of team/went on node-1 and 3 more nodes": of
// what is `missing` for the gang, on nodes that it may use, that which pods hold for which no gang
// has a place any more and which do not go by themselves. Empty: they hold none, or it would not
// do. Cost: what all such pods hold.
std::string HeldByStuckPodsText(const ClusterState& state,
                                const GangRecord& gang,
                                Constraint missing);

}  // namespace lockstep::control
