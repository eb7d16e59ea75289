#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "common/base/time.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A program that loses a peer often ends with a code of its own, the loss's echo, and that end may
// be told before the peer's: another kubelet tells it, or the peer's pod takes a while to end. So a
// code that would fail the job is not believed at once while somebody else may yet explain it. A
// program that meets by liblockstep says which rank it has lost: whatever became of that one is the
// better explanation, be it a code that fails the job.

// Choice: kubelets took up to 2.3 s to tell of an end, and what is left in the peer's pod has 2 s.
inline constexpr std::chrono::seconds kEchoPatience{5};

// Until when the job goes on in spite of `failures`; null: they are to be answered now. Waits only
// for a command's gang all of whose failures that are not explained are codes that the program
// chose itself and that fail the job, while others of the gang have not ended that would be
// restarted if they were at fault; or that name a lost rank whose pod has not ended. Not for a
// successor that has joined nobody yet: the one that was lost had ended before it. And not longer
// than kEchoPatience after the first of the failures, by its node's clock. Where that clock is
// ahead of ours by more than that, or says nothing, there is no wait.
std::optional<WallTime> PatienceWithEcho(const DecisionBuilder& builder,
                                         const GangView& view,
                                         const std::vector<Failure>& failures);

// Of each failure, whether it is of a program that lost a rank of another pod whose failure is
// there too. Precondition: no two are of the same pod.
std::vector<bool> FindExplained(const std::vector<Failure>& failures);

// The failure that decides for all that one turn sees: one that no other explains, where there is
// one. The built-in trainer survives its peers, so a permanent failure of one rank is its own and
// comes first. Any other program that loses a peer often ends with a code of its own, so there a
// failure that allows a restart is taken for the origin and a permanent one for its echo. Of
// several alike those come last whose words tell of a closed connection to a peer. Then the one
// that ended first decides, as far as their nodes say when, else the first in task order.
// Precondition: `failures` is not empty.
const Failure& OriginOf(const std::vector<Failure>& failures, bool is_training);

}  // namespace lockstep::control
