#include "operator/reconcile/lifecycle/news.h"

#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/seen_gang.h"
#include "operator/reconcile/lifecycle/progress.h"
#include "operator/reconcile/pods/admission_change.h"
#include "operator/reconcile/recovery/gang_relaunch.h"
#include "operator/reconcile/recovery/late_verdict.h"

namespace lockstep::control {

GangView TakeNews(DecisionBuilder* builder) {
  GangView view = SeeGang(*builder);
  if (NoteRealNodes(view, builder)) {
    view = SeeGang(*builder);
  }
  LearnRelaunches(view, builder);
  NoteAbsence(builder);
  NoteSeen(view, builder);
  NoteTrouble(view, builder);
  NoteAdmission(view, builder);
  LearnVerdicts(view, builder);
  return view;
}

}  // namespace lockstep::control
