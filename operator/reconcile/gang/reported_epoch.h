#pragma once

#include "common/base/strong_id.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// No meeting has a higher number: whoever tells of one is not believed. Choice: what JSON carries
// exactly everywhere, and what no job comes near.
inline constexpr Epoch kEpochMax{int64_t{1} << 53};

// The newest meeting that the member's runtime tells of, if the gang may be in it; else `known`.
Epoch ReportedEpoch(const Member& member, Epoch known);

}  // namespace lockstep::control
