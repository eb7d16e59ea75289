#pragma once

#include <string>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// The gang goes for what is not its own fault, of which `message` tells. Its ranks are told to save
// what they have, and its pods get their whole grace; attempt and epoch rise and the placement is
// given up, which makes every pod stale. No restart is counted and no budget spent: the job waits
// for its turn as before, and goes on from its checkpoint. Precondition: it has its places.
void SendGangAway(const GangView& view, const std::string& message, DecisionBuilder* builder);

// "preempted by team/urgent of priority 5".
std::string DescribeOrder(const EvictionOrder& order);

// SendGangAway where the gang has lost what its places were granted by; whether it has.
bool EvictWithoutCapacity(const GangView& view, DecisionBuilder* builder);

// SendGangAway, so that another gang may start.
void EvictGang(const GangView& view, const EvictionOrder& order, DecisionBuilder* builder);

}  // namespace lockstep::control
