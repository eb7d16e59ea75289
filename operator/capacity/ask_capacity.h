#pragma once

#include <string>

#include "operator/reconcile/decision_builder.h"
#include "operator/scheduler/plan/plan.h"

namespace lockstep::control {

// A job with scheduling.provisioning asks autoscalers for room, while its gang has none and nothing
// but room is missing. By ProvisioningRequests: whether there is any (check-capacity) first, then
// for nodes for the whole gang (best-effort-atomic-scale-up). By placeholder pods
// (show_placeholders.h): for nodes for what they lack. What is asked for is in the status before
// any object is made, and every object that is not in there goes: so none is left over, however a
// wait ends.

// What is asked for after the gang was refused its places, and what has been answered. Returns what
// people are to know of it, to follow on the refusal: "; ..."; empty: nothing.
std::string AskForCapacity(const Unschedulable& refusal, DecisionBuilder* builder);

// The same of a gang that waits no more, as its time is over: nothing is asked for it any more.
std::string WhatWasAsked(const Unschedulable& refusal, const DecisionBuilder& builder);

// The manifest was changed: that may be the cure of what failed.
void ForgetFailedAsks(ExternalStatus* status);

// Takes back what is not wanted any more, makes what is missing of the ask that is open, and
// removes what is left over. The status is as decided, last of all.
void TellAutoscaler(DecisionBuilder* builder);

}  // namespace lockstep::control
