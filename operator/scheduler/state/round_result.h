#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/scheduler/state/cluster_state.h"

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

// Makes the state what the round decided: those granted run, those evicted leave, others have been
// told.
void Commit(const RoundResult& result, WallTime now, ClusterState* state);

// All of it, line by line.
std::string ToText(const RoundResult& result);

}  // namespace lockstep::control
