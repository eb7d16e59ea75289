#include "operator/reconcile/recovery/failure_answer.h"

#include <string>

#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/recovery/gang_relaunch.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/reconcile/recovery/replace.h"

namespace lockstep::control {
namespace {

void FailFor(const Failure& failure, DecisionBuilder* builder) {
  builder->Fail("PodFailed",
                failure.sentence + ", cause " + failure.cause + "; earlier incidents: " +
                    std::to_string(CountedIncidents(builder->status().incidents)) + " of " +
                    std::to_string(builder->spec().run_policy.backoff_limit) +
                    " allowed by runPolicy.backoffLimit");
}

}  // namespace

void AnswerFailures(const GangView& view,
                    const std::vector<Failure>& failures,
                    DecisionBuilder* builder) {
  const Failure& origin = OriginOf(failures, builder->is_training());
  if (const auto until = PatienceWithEcho(*builder, view, failures)) {
    builder->WakeAt(*until);
    return;
  }
  builder->mutable_failures()->last_failure = {
      origin.pod_name, builder->now(), origin.sentence, origin.tail};
  if (origin.response == FailureResponse::kFailJob) {
    FailFor(origin, builder);
  } else if (CanReplace(*builder, view, failures)) {
    if (SpendBudget(failures, builder)) {
      ReplaceMembers(view, failures, builder);
    }
  } else if (SpendBudget({origin}, builder)) {
    StartGangAnew(view, failures, builder);
  }
}

}  // namespace lockstep::control
