#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A meeting of liblockstep is of all ranks. Where one has left with exit code 0 and another meets,
// nobody will come: the one has a way out of its loop that the other has not.

// Choice: who has said that all is done ends the others' meetings at once, so well above what that
// and clocks that differ take; far below what a meeting may take.
inline constexpr std::chrono::seconds kFarewellSeen{5};

// Reason of Running while it is so.
inline constexpr const char* kReasonRankLeft = "RankLeft";

// What is to be said of a command's gang in which somebody meets kFarewellSeen after a rank left,
// by the clock of its node, or later: "pod mnist-worker-1 (rank 1) ended with exit code 0, but 2
// other ranks wait for it in the rendezvous". These are ranks: all of a pod that says that it
// meets. What was said stands until one says that it has met: whoever gives up tells of no meeting
// any more, and ends later. Null: it is not so, or nobody has told since. Asks `builder` to look
// again when there is one who left more recently.
std::optional<std::string> DescribeVainMeeting(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
