#pragma once

#include <optional>
#include <string>

#include "operator/capacity/capacity_wait.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A job with the label of a LocalQueue has gangs only while Kueue grants it a share: its Workload
// is admitted. What admission says of its pods is in the status before any place is.

// What a job without places waits for; null: it needs nothing of Kueue, or has its share.
std::optional<CapacityWait> AwaitKueueShare(const GangView& view, DecisionBuilder* builder);

// Why a gang with places has lost its share, which the status then forgets; empty: it has not. One
// that got its places without a share keeps them: a label that is added counts for the next.
std::string LoseKueueShare(DecisionBuilder* builder);

// What Kueue is to know by the Workload: what the job asks for, that its pods run, that those of a
// gang that went are gone, that the job has ended or wants nothing any more. `view` is of the
// status as decided.
void TellKueue(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
