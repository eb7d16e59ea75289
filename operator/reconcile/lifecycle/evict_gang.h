#pragma once

#include <string>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// "preempted by team/urgent of priority 5".
std::string DescribeOrder(const EvictionOrder& order);

// The gang goes where another one is to start, or where it has lost what its places were granted
// by. Returns whether it does.
bool EvictIfAsked(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
