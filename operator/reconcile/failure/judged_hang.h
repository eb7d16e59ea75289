#pragma once

#include <cstdint>

#include "common/contract/hang_evidence.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Which ranks hang, by what the gang's pods have found out about theirs when steps stopped: each
// pod knows its own ranks alone. Nobody while a rank moves, and none while programs are relaunched:
// that answers an earlier verdict. Pure.
HangVerdict HangAmong(const DecisionBuilder& builder, const GangView& view);

// Whether one of the member's ranks is among those of the verdict. `processes`: of its pod.
bool Hangs(const HangVerdict& verdict, const Member& member, int64_t processes);

}  // namespace lockstep::control
