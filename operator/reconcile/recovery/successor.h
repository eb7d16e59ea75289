#pragma once

#include <vector>

#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A task whose pod is to be made anew while the others stay.
struct Successor {
  TaskId task;
  bool leaves_node = false;  // its node is at fault: another one, where there is room

  friend bool operator==(const Successor&, const Successor&) = default;
};

// The placement stands for the next pod of its rank from now on, of which nothing is known yet.
void BeginSuccessor(PodPlacement* placement, WallTime now);

// Writes into the placement where each successor goes: where it was while that node still takes it,
// else elsewhere, in the domain that the gang's topology requires; one that leaves its node goes
// back there only if no other has room. Whoever may stay comes first, and a place whose old process
// may still run is nobody else's. Nodes that are cordoned or not ready get nobody, and what is kept
// for another job's gang is left to that. Without room the placement's node is empty.
void PlaceSuccessors(const GangView& view,
                     const std::vector<Successor>& successors,
                     DecisionBuilder* builder);

// A node for `successor` that is none of those at fault; empty when there is none.
std::string NodeElsewhere(const GangView& view,
                          const Successor& successor,
                          const DecisionBuilder& builder);

// Whether a task has no place.
bool LacksPlace(const TrainingJobStatus& status);

// Looks again for room for the members that have none; whether there are any. A view from before
// does not know where they go now.
bool PlaceWaitingSuccessors(const GangView& view, DecisionBuilder* builder);

// Says of the first member without a place what is missing for it, and looks again within a second.
// `view`: of what has been decided. When all else has been said: a status never takes a place away
// without saying so.
void TellOfWaitingSuccessor(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
