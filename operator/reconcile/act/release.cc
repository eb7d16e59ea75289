#include "operator/reconcile/act/release.h"

#include "operator/api/conditions.h"
#include "operator/reconcile/act/ask_capacity.h"
#include "operator/reconcile/act/kueue_share.h"
#include "operator/reconcile/act/native_binding.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

Decision ReleaseJob(const TrainingJob& job, const Observed& observed, WallTime now) {
  TrainingJob silent = job;
  silent.spec.run_policy.suspend = true;  // it asks for as little as one that is to stand still
  DecisionBuilder builder(silent, observed, now);
  if (!HasEnded(job.status) && job.status.placement.empty()) {
    TrainingJobStatus* const status = builder.mutable_status();
    SetCondition(status,
                 {ConditionType::kScheduled,
                  false,
                  "JobDeleted",
                  "the job is being deleted, and waits for nothing any more"},
                 now);
    status->queue.reset();
    status->claim.reset();
    TellKueue(ViewGang(job.metadata, job.status, builder.topology(), observed), &builder);
    TellScheduler(&builder);
  }
  TellAutoscaler(&builder);
  return builder.Take();
}

}  // namespace lockstep::control
