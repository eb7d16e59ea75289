#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "operator/scheduler/placement/room_turn.h"
#include "operator/scheduler/state/round_result.h"

namespace lockstep::control {

// What one round leaves to the next. No answer depends on it, only how soon it comes.
struct RoundMemory {
  LaterCounts later;
  // Gangs for which others were looked for since the round that left the first one out, by
  // GangRecord::serial, and when to look again; and what was news then.
  std::map<uint64_t, std::optional<WallTime>> searched;
  uint64_t searched_since = 0;
};

// Decides for everything that waits: who starts where, who has to go for whom, and what the others
// wait for. Turns go as the queues say; a gang that has to wait lets those behind it pass where it
// does not have to wait longer for them. One for which room is kept starts when that has come free,
// and waits like the others again once it cannot come free any more: a pod that was asked to go is
// stuck, say, or its queue is gone.
//
// Pure: nothing but `state` and `now` counts, equal states give equal answers to the byte where
// `memory` is equal too, and the state is as before when this returns. Commit carries the answer
// out.
// Cost: for each gang that waits a comparison; for each that starts the groups of nodes of its
// domain; for each of a few that may have others go those whom it may evict.
RoundResult Round(ClusterState* state,
                  WallTime now,
                  RoundMemory* memory,
                  const RoundOptions& options = {});

}  // namespace lockstep::control
