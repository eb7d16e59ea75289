#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Looks again when the patience with a pod may be over. Precondition: it has not run yet.
void WakeForStartProblems(const PodPlacement& placement, DecisionBuilder* builder);

// Rolls a gang back that has not run, where the cluster has made its pods ask for more than its
// queue may hold: it had its places for what their templates say, and the next plan counts what it
// knows now. Returns whether it was so.
bool RollBackOverQuota(DecisionBuilder* builder);

// Rolls the gang back as a whole, unless it has run before: then the pods that cannot start are
// tried once on other nodes, and after that the gang starts anew. A final problem fails the job.
// Precondition: there is a problem.
void AnswerStartProblems(const GangView& view,
                         const std::vector<StartProblem>& problems,
                         DecisionBuilder* builder);

}  // namespace lockstep::control
