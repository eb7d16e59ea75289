#pragma once

#include <optional>
#include <vector>

#include "common/base/time.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// The API server does not create a replacement: a policy, a quota, a webhook that is down. The
// survivors have their state, and rolling them back would only ask for more pods of the same
// server. So they are left alone, however long it takes; they give up by themselves after
// recovery.rendezvousTimeoutSeconds. When none is left the gang is rolled back, at no cost, and
// waits with the server's words.

// Whether a rank runs on.
bool HasSurvivor(const GangView& view);

// When a pod that was refused is asked for again, with a pause that grows with each refusal in a
// row; null when it was not refused.
std::optional<WallTime> NextTryOf(const Member& member, const DecisionBuilder& builder);

// `problems` without the replacements that are only refused while a rank runs on; says who is, and
// why, in Restarting.
std::vector<StartProblem> HoldRefused(const GangView& view,
                                      std::vector<StartProblem> problems,
                                      DecisionBuilder* builder);

// Whether Restarting says of a replacement that it is refused, as HoldRefused has it.
bool TellsOfRefusal(const GangView& view, const DecisionBuilder& builder);

}  // namespace lockstep::control
