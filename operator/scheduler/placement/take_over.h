#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Room that is kept for others of the gang's queue, of a lower priority, and is this one's.
struct TakeOver {
  std::vector<std::string> claimants;  // whose room is needed, by name
  PlacedPods pods;
  bool is_free = false;  // now; else those have to leave first who leave already
};

// Whether the gang fits where room is kept for gangs that might go for it if they ran: then nobody
// goes for it, and theirs waits. Empty: it does not, or its queue has nobody go.
//
// `statement` is as before when this returns. `awaited`: claimants whose room is another's already,
// by name.
std::optional<TakeOver> FindTakeOver(Statement* statement,
                                     const GangRecord& gang,
                                     const std::set<std::string>& awaited,
                                     int64_t search_steps_max);

}  // namespace lockstep::control
