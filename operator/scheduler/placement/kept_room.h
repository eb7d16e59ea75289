#pragma once

#include <vector>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Whether what is kept for the gang can come free still: who stays leaves room for it.
bool MayComeFree(const ClusterState& state, const GangRecord& claimant);

// Those of the claimants that could start now, beside all who leave, and for which nobody is still
// to be told to go. What is free of a node is theirs first who claimed it first, so that nobody
// waits for more than when the claim was made; claims of one moment go by age.
std::vector<const GangRecord*> ClaimantsWithRoom(const ClusterState& state,
                                                 std::vector<const GangRecord*> claimants);

}  // namespace lockstep::control
