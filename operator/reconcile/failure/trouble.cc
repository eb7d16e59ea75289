#include "operator/reconcile/failure/trouble.h"

#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/failure/left_rank.h"

namespace lockstep::control {

Trouble FindTrouble(const GangView& view, const DecisionBuilder& builder) {
  Trouble trouble;
  trouble.problems = FindStartProblems(builder, view);
  trouble.failures = BlameLeavers(builder, view, FindFailures(builder, view, trouble.problems));
  trouble.fails_job =
      !trouble.failures.empty() &&
      OriginOf(trouble.failures, builder.is_training()).response == FailureResponse::kFailJob;
  return trouble;
}

}  // namespace lockstep::control
