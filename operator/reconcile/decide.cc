#include "operator/reconcile/decide.h"

#include <string>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/own_end.h"
#include "operator/reconcile/gang/gang_size.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/lifecycle/release.h"
#include "operator/reconcile/lifecycle/resize.h"
#include "operator/reconcile/turn.h"

namespace lockstep::control {
namespace {

Decision DecideOnSize(const TrainingJob& job, const Observed& observed, WallTime now) {
  const std::string misfit = WhySizeNeverFits(job, observed);
  if (misfit.empty() && !AwaitsConsent(job, observed)) {
    DecisionBuilder builder(job, observed, now);
    TakeTurn(&builder);
    NoteSizeIsHeeded(&builder);
    return builder.Take();
  }
  const TrainingJob placed = AsPlaced(job);
  DecisionBuilder builder(placed, observed, now);
  TakeTurn(&builder);
  if (misfit.empty()) {
    AskForConsent(job, &builder);
  } else {
    RefuseSize(job, misfit, &builder);
  }
  return builder.Take();
}

}  // namespace

Decision Decide(const TrainingJob& job, const Observed& observed, WallTime now) {
  if (!IsOurs(job)) {
    return DecisionBuilder(job, observed, now).Take();  // somebody else's job
  }
  if (observed.is_job_deleting) {
    return ReleaseJob(job, observed, now);
  }
  if (HasEndedBesideOthers(observed)) {
    return DecideOnSize(job, WithOwnEnds(job, observed), now);
  }
  return DecideOnSize(job, observed, now);
}

}  // namespace lockstep::control
