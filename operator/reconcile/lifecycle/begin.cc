#include "operator/reconcile/lifecycle/begin.h"

#include <utility>

#include "operator/api/conditions.h"
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
void EndStall(TrainingJobStatus* status, WallTime now) {
  if (IsTrue(*status, ConditionType::kStalled)) {
    SetCondition(status,
                 {ConditionType::kStalled,
                  false,
                  "Readable",
                  "the operator can read the manifest and the status again"},
                 now);
  }
}

}  // namespace

void Begin(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  const bool is_edited = status->observed_generation != builder->job().metadata.generation;
  *status = WithoutFuture(std::move(*status), builder->now());
  status->preempted_at = PreemptedAt(*status);
  if (is_edited) {
    if (HasEnded(*status)) {
      RefuseLateChange(builder);
    }
    status->retry_at.reset();  // the change may be the cure
    status->claim.reset();     // it may be of another gang
    ForgetFailedAsks(status);
    status->rollbacks = 0;
    if (status->placement.empty()) {
      status->admitted.clear();  // what made it so may be gone: the next pods tell
    }
  }
  status->observed_generation = builder->job().metadata.generation;
  status->incidents =
      Remembered(std::move(status->incidents),
                 status->progress.has_value() ? status->progress->checkpoint_step : 0,
                 builder->now());
  EndStall(status, builder->now());
  if (FindCondition(builder->status(), ConditionType::kCreated) == nullptr) {
    TakeUp(builder);
  }
  NoteUnplanned(is_edited, builder);
}

}  // namespace lockstep::control
