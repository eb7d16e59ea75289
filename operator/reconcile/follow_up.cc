#include "operator/reconcile/follow_up.h"

#include "operator/api/status/conditions.h"
#include "operator/capacity/capacity_sources.h"
#include "operator/reconcile/failure/device_check.h"
#include "operator/reconcile/failure/key_check.h"
#include "operator/reconcile/gang/seen_gang.h"
#include "operator/reconcile/lifecycle/finish.h"
#include "operator/reconcile/lifecycle/progress.h"
#include "operator/reconcile/lifecycle/renewal.h"
#include "operator/reconcile/start/gang_pods.h"

namespace lockstep::control {

void FollowUp(DecisionBuilder* builder) {
  const GangView view = SeeGang(*builder);  // anew: the decision may have made pods stale
  Report(view, builder);
  NoteOrigin(builder);
  TellCapacity(view, builder);
  if (HasEnded(builder->status())) {
    builder->mutable_waiting()->claim.reset();
    Finish(view, builder);
    return;
  }
  CheckDevices(view, builder);
  CheckKey(view, builder);
  RemoveStale(view, builder);
  CreateMissing(view, builder);
}

}  // namespace lockstep::control
