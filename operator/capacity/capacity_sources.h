#pragma once

#include <optional>
#include <string>

#include "operator/capacity/capacity_wait.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Some jobs ask others for room before or beside our own scheduler: Kueue for a share of quota
// (kueue_share.h), kube-scheduler for the places of a PodGroup (native_binding.h), and autoscalers
// for nodes, by requests or by placeholder pods (ask_capacity.h).

// What a job without places waits for before it looks for any; null: nothing.
std::optional<CapacityWait> AwaitCapacity(const GangView& view, DecisionBuilder* builder);

// Why a gang with places has lost what they were granted by; empty: it has not.
std::string LoseCapacity(DecisionBuilder* builder);

// Asks for what is missing, and takes back what is not wanted any more. The status is as decided,
// last of all; `view` is of it.
void TellCapacity(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
