#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/scheduler/cluster_state.h"
#include "operator/scheduler/room_turn.h"

namespace lockstep::control {

// The gang starts: all its pods, each on its node.
struct Grant {
  std::string gang;
  PlacedPods pods;

  friend bool operator==(const Grant&, const Grant&) = default;
};

// The gang is to save and go; its room is kept for the beneficiary, which starts when all have
// gone.
struct Eviction {
  std::string gang;
  std::string beneficiary;

  friend bool operator==(const Eviction&, const Eviction&) = default;
};

// The gang waits; what is missing.
struct Refusal {
  std::string gang;
  Unschedulable why;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// Others could go for the gang. The API server is to say first whether its pods may be created.
struct PermissionNeed {
  std::string gang;
  std::vector<std::string> victims;  // who would go; by name

  friend bool operator==(const PermissionNeed&, const PermissionNeed&) = default;
};

// Where a gang that waits on stands among those of its queue: 1 is the next (PositionsOf).
struct LinePosition {
  std::string gang;
  int64_t position = 0;

  friend bool operator==(const LinePosition&, const LinePosition&) = default;
};

struct RoundResult {
  std::vector<Grant> grants;           // in the order of turns
  std::vector<Eviction> evictions;     // of one beneficiary together, by name
  std::vector<Refusal> refusals;       // other than what was told before; in the order of turns
  std::vector<std::string> confirmed;  // looked at again: what was told still holds
  std::size_t outdated_count = 0;      // not looked at again, though figures may have changed
  // Of all that wait on, but for those that hold up nobody, those whose queue does not serve them,
  // and those that could not start if nobody else held anything.
  std::vector<LinePosition> line;
  std::vector<PermissionNeed> permissions_needed;  // in the order of turns
  std::vector<Operation> log;                      // all of it, to be applied in this order
  // When time alone may change an answer, because a gang has run long enough to be evicted.
  std::optional<WallTime> look_again_at;
};

struct RoundOptions {
  // Steps of the search for a place of gangs whose pods ask for different things.
  int64_t search_steps_max = 200'000;
  // Refusals put into words anew because the nodes have changed, and as the gang waits for
  // something else than before; those of new gangs come beside these. Choice: a tenth of a
  // millisecond's worth on thousands of nodes, and half a millisecond's; the others' turn comes in
  // the next rounds.
  std::size_t refreshed_max = 4;
  std::size_t reworded_max = 32;
  // Gangs for which it is searched whom to ask to go; the others' turn comes in the next rounds.
  // Choice: one search takes up to 50 ms where thousands would have to go.
  std::size_t searches_max = 8;
  // A gang that waits, and of which nobody knows when it starts, holds those behind it back for so
  // long, and then lets them pass, in turns (HoldBackOf); 0: it holds them back until it starts.
  std::chrono::seconds hold_back{0};
  std::string asked{};  // a gang whose refusal is put into words anew in any case; empty: none

  friend bool operator==(const RoundOptions&, const RoundOptions&) = default;
};

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

// Makes the state what the round decided: those granted run, those evicted leave, others have been
// told.
void Commit(const RoundResult& result, WallTime now, ClusterState* state);

// All of it, line by line.
std::string ToText(const RoundResult& result);

}  // namespace lockstep::control
