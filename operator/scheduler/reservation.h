#pragma once

#include <cstdint>
#include <optional>

#include "common/base/time.h"
#include "operator/scheduler/cluster_state.h"

namespace lockstep::control {

// The moment that is kept for a gang that waits: when it fits at the latest, by its queue's quota
// too, if every running gang is stopped at its limit, and nobody starts in between who is still
// there then. Whoever leaves counts as gone, who has no limit as there for good, and what is
// claimed as held. Null: it does not fit then either.
//
// It may start sooner, as gangs may end before their limits.
//
// `statement` is as before when this returns.
// Cost: a walk over the running gangs that have a limit, and a search for a place for each doubling
// of their number.
std::optional<WallTime> ReservationFor(Statement* statement,
                                       const GangRecord& gang,
                                       int64_t search_steps_max);

}  // namespace lockstep::control
