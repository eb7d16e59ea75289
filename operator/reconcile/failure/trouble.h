#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// All that is wrong with a gang in one turn.
struct Trouble {
  std::vector<Failure> failures;
  std::vector<StartProblem> problems;
  bool fails_job = false;  // what the failures began with is not tried again
};

Trouble FindTrouble(const GangView& view, const DecisionBuilder& builder);

}  // namespace lockstep::control
