#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/scheduler/placement/placer.h"
#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Gangs that are to go, and where the one that they make room for will stand.
struct Preemption {
  std::vector<std::string> victims;  // by name; none: those who leave already are enough
  PlacedPods pods;
};

struct PreemptionResult {
  std::optional<Preemption> preemption;
  // Without a preemption, what there is to say beside what is missing; may be empty.
  std::string why_not;
  bool is_proved_by_counting = false;  // no victim was looked at
  // When a gang may be evicted that may not be yet; empty: there is none.
  std::optional<WallTime> look_again_at;
};

// Whether the gang's queue lets it evict anybody at all.
bool MayPreempt(const ClusterState& state, const GangRecord& gang);

// What a victim loses: its size times the seconds since its last checkpoint, more for one that was
// disturbed before. Units: GPU-seconds; of a gang without GPUs, pod-seconds.
int64_t WorkLost(const GangRecord& victim, WallTime now);

// Whom to evict so that the gang fits, if that is possible at all.
//
// Who may be a victim: in the gang's own queue, gangs of lower priority, where that queue preempts;
// in other queues that hold more than their nominal amounts, while they do, where the gang's queue
// reclaims and stays within its own. Never one that is not preemptible, is leaving, has only been
// promised its places, or has run for less than its queue's minRuntime.
//
// The answer is proved: with all of `victims` and those who are leaving gone, the gang fits at
// `pods`, by its queue's quota too; and none of the victims could stay beside it there. They are
// the cheapest by node, the lowest priority first; a set that costs less in all may exist. A
// refusal by counting comes before any victim is looked at: what is free and what can be had back,
// resource by resource, and what fits each domain if only strangers held anything.
//
// `statement` is as before when this returns.
PreemptionResult FindVictims(Statement* statement,
                             const GangRecord& gang,
                             int64_t search_steps_max);

}  // namespace lockstep::control
