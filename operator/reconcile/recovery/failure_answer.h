#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// What follows from failures, cheapest first: nothing yet, where a better explanation may still
// come; lost members are replaced while the others go on; the gang starts anew, within its pods
// where it can. Where the budget is used up, or a policy says so, the job fails.
// Precondition: `failures` is not empty.
void AnswerFailures(const GangView& view,
                    const std::vector<Failure>& failures,
                    DecisionBuilder* builder);

}  // namespace lockstep::control
