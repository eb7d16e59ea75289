#include "operator/reconcile/gang/seen_gang.h"

#include "operator/api/job/placement.h"
#include "operator/reconcile/gang/departure.h"

namespace lockstep::control {
namespace {

// By the newest report, or by what the status remembers where nobody has one any more.
bool IsEarly(const Member& member, const std::optional<JobProgress>& progress) {
  if (member.report != nullptr) {
    return HasEndedEarly(*member.pod, member.report->document);
  }
  return progress.has_value() && HasEndedEarly(*member.pod, *progress);
}

}  // namespace

GangView SeeGang(const DecisionBuilder& builder) {
  GangView view =
      ViewGang(builder.job().metadata, builder.status(), builder.topology(), builder.observed());
  for (Member& member : view.members) {
    const bool is_told_by_pod = builder.is_training() && member.rank.has_value() &&
                                member.state == MemberState::kSucceeded && member.pod != nullptr;
    if (is_told_by_pod && IsEarly(member, builder.status().progress) &&
        !FindPlacement(builder.status(), member.task)->is_completed) {
      member.state = MemberState::kFailed;
    }
  }
  return view;
}

}  // namespace lockstep::control
