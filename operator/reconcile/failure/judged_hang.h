#pragma once

#include "common/contract/status/hang_evidence.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Which ranks hang, by what the gang's pods have found out about theirs when steps stopped: each
// pod knows its own ranks alone. Nobody while a rank moves, and none while programs are relaunched:
// that answers an earlier verdict. Nobody either where two pods tell of one rank: they know of each
// other by NCCL, and judge by themselves, or are no ranks of one world. Pure.
HangVerdict HangAmong(const DecisionBuilder& builder, const GangView& view);

// Whether the member has told of one of the verdict's ranks. Its own number does not tell: under a
// launcher such as torchrun, ranks are the program's.
bool Hangs(const HangVerdict& verdict, const Member& member);

}  // namespace lockstep::control
