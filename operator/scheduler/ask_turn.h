#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Whose turn it is to ask autoscalers for room: what is asked for at one time is what quotas would
// allow to run at one time, beside what runs. Each gang that asks counts against the quota of its
// queue for those that come after it, though nothing is placed by that: first those for which nodes
// are on their way, then those that ask already, then in the order of turns, and last those whose
// ask has failed, the one first that would ask again first.
//
// `asking`: gangs that lack room and would ask for it, in the order of turns; each has a queue.
// Returns the gangs among them that may not ask now, by name, each with why.
// Cost: a copy of the queues, and a check of quota for each gang.
std::map<std::string, std::string> WhoMayNotAsk(const QueueTree& queues,
                                                std::vector<const GangRecord*> asking);

}  // namespace lockstep::control
