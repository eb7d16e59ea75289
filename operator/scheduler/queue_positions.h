#pragma once

#include <vector>

#include "operator/scheduler/round.h"

namespace lockstep::control {

// Where the gangs of `line`, which are in the order of their turns, stand in their queues; those
// that run by now are left out. In a queue that namespaces share by what they hold each gets its
// number as if all before it had got their places, and its namespace held that beside what it
// holds. Those for which room is kept come first.
// Cost: for each gang of such a queue what a share costs.
std::vector<LinePosition> PositionsOf(const ClusterState& state,
                                      const std::vector<const GangRecord*>& line);

}  // namespace lockstep::control
