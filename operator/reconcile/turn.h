#pragma once

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Takes one turn of a job that is ours and is not being deleted. How large its gang is to be has
// been decided: the builder's job says so.
void TakeTurn(DecisionBuilder* builder);

}  // namespace lockstep::control
