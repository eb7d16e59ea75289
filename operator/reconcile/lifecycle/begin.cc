#include "operator/reconcile/lifecycle/begin.h"

#include <utility>

#include "operator/api/status/conditions.h"
#include "operator/capacity/ask_capacity.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/lifecycle/clock_skew.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/lifecycle/late_change.h"
#include "operator/reconcile/lifecycle/take_up.h"
#include "operator/reconcile/lifecycle/unplanned.h"

namespace lockstep::control {
namespace {

// The job can be read: StallJob has nothing to say of it any more.
void EndStall(DecisionBuilder* builder) {
  if (IsTrue(builder->status(), ConditionType::kStalled)) {
    builder->SetQuietly({ConditionType::kStalled,
                         false,
                         "Readable",
                         "the operator can read the manifest and the status again"});
  }
}

}  // namespace

void Begin(DecisionBuilder* builder) {
  const TrainingJobStatus& status = builder->status();
  const bool is_edited = status.observed_generation != builder->job().metadata.generation;
  builder->Correct(WithoutFuture);
  WaitingStatus* const waiting = builder->mutable_waiting();
  waiting->preempted_at = PreemptedAt(status);
  if (is_edited) {
    if (HasEnded(status)) {
      RefuseLateChange(builder);
    }
    waiting->retry_at.reset();  // the change may be the cure
    waiting->claim.reset();     // it may be of another gang
    waiting->rollbacks = 0;
    ForgetFailedAsks(builder->mutable_external());
    if (status.placement.empty()) {
      builder->mutable_placement()->admitted.clear();  // the next pods tell what is so now
    }
  }
  builder->mutable_lifecycle()->observed_generation = builder->job().metadata.generation;
  std::vector<Incident>* const incidents = &builder->mutable_failures()->incidents;
  *incidents = Remembered(std::move(*incidents),
                          status.progress.has_value() ? status.progress->checkpoint_step : 0,
                          builder->now());
  EndStall(builder);
  if (FindCondition(builder->status(), ConditionType::kCreated) == nullptr) {
    TakeUp(builder);
  }
  NoteUnplanned(is_edited, builder);
}

}  // namespace lockstep::control
