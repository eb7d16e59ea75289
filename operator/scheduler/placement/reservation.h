#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/time.h"
#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// When running gangs will have ended.
enum class EndsBy {
  kLimits,      // when they are stopped; without a limit never
  kPastRuns,    // at their LearntEndOf; by their limits where that is none, or is over
  kCorrections  // the same, but that one that runs for longer than it was thought to is thought to
                // run for twice that time, or four times, and so on; by its limit where it is
                // sooner
};

// The moment that is kept for a gang that waits.
struct Reservation {
  WallTime at;
  // Without what was learnt of this one it would be another; null: limits alone count.
  const GangRecord* learnt_of = nullptr;
  std::map<NodeIndex, NodeUsage> uses{};  // of nodes then, at a place where it fits
};

// When the gang fits at the latest, by its queue's quota too, if every running gang has ended when
// `by` says, and nobody starts in between who is still there then. Whoever leaves counts as gone,
// who has no end as there for good, and what is claimed as held. Null: it does not fit then either.
//
// It may start sooner, as gangs may end before their limits.
//
// `statement` is as before when this returns. The gangs looked away from are taken off
// `walks_left`; where those would not do, the answer is as if it did not fit. Cost: a walk over
// those running gangs that have to have ended, and as many again, and a search for a place for each
// doubling of their number.
std::optional<Reservation> ReservationFor(Statement* statement,
                                          const GangRecord& gang,
                                          EndsBy by,
                                          int64_t search_steps_max,
                                          int64_t* walks_left);

// Whether the gang that waits still fits at that moment, in the same way, when `newcomer` has
// started since, and nobody else; at another place, perhaps, which is then the reservation's.
// `is_newcomer_learnt`: what was learnt of the newcomer counts; otherwise it has ended when it is
// stopped. Cost: mostly that of the newcomer's nodes; else of one walk and one search.
bool StillFits(Reservation* reservation,
               const GangRecord& newcomer,
               Statement* statement,
               const GangRecord& waiting,
               EndsBy by,
               bool is_newcomer_learnt,
               int64_t search_steps_max,
               int64_t* walks_left);

}  // namespace lockstep::control
