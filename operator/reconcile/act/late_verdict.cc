#include "operator/reconcile/act/late_verdict.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/contract/exit_code.h"
#include "operator/reconcile/act/gang_restart.h"
#include "operator/reconcile/detect/failure.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/policy/budget.h"

namespace lockstep::control {
namespace {

// The end of a replaced rank's pod, as its kubelet tells it.
Failure EndOf(const DecisionBuilder& builder, const kube::Pod& pod) {
  const auto identity = IdentityOf(pod);
  Member member;
  member.task = identity->task;
  member.rank = identity->rank;
  member.number = identity->number;
  member.pod_name = pod.name;
  member.pod = &pod;
  return EndedFailure(builder, member);
}

// The incidents that wait for a cause have one.
void Rename(std::string_view from, std::string_view to, std::vector<Incident>* incidents) {
  for (Incident& incident : *incidents) {
    incident.cause = incident.cause == from ? std::string(to) : incident.cause;
  }
}

void Settle(const Failure& end, DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  status->restarts = WithRestartMoved(std::move(status->restarts), kCauseEnded, end.cause);
  if (!IsFree(end)) {
    Rename(kCauseEnded, end.cause, &status->incidents);
  }
  builder->Count(Metric::kRestarts, end.cause);
  const std::string message = end.sentence + ", cause " + end.cause;
  if (end.response == FailureResponse::kFailJob) {
    builder->Fail("PodFailed", message);
    return;
  }
  builder->Say(EventType::kWarning, "PodEnded", message);
  if (IsTrue(*status, ConditionType::kRestarting)) {
    SetCondition(
        status, {ConditionType::kRestarting, true, "RankReplaced", message}, builder->now());
  }
}

// The pod is gone although we left it alone: somebody removed it, a drain perhaps. That is free, so
// the incident stays unnamed, and is forgotten with the last of them.
void SettleDeleted(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  if (RestartsFor(kCauseEnded, *status) == 0) {
    return;
  }
  status->restarts = WithRestartMoved(std::move(status->restarts), kCauseEnded, kCauseDeleted);
  builder->Count(Metric::kRestarts, std::string(kCauseDeleted));
}

}  // namespace

bool AwaitsVerdict(const DecisionBuilder& builder, const kube::Pod& pod) {
  const PodPlacement* const successor = SuccessorOf(builder.status(), pod);
  return successor != nullptr && successor->awaits_verdict && !HasEnded(pod) &&
         builder.now() < successor->since + kVerdictPatience;
}

void LearnVerdicts(const GangView& view, DecisionBuilder* builder) {
  int64_t awaited = 0;
  for (PodPlacement& placement : builder->mutable_status()->placement) {
    if (!placement.awaits_verdict) {
      continue;
    }
    const auto pod = std::find_if(view.stale.begin(), view.stale.end(), [&](const kube::Pod* one) {
      return SuccessorOf(builder->status(), *one) == &placement;
    });
    if (pod != view.stale.end() && AwaitsVerdict(*builder, **pod)) {
      builder->WakeAt(placement.since + kVerdictPatience);
      ++awaited;
      continue;
    }
    placement.awaits_verdict = false;
    if (pod == view.stale.end()) {
      SettleDeleted(builder);
    } else if (HasEnded(**pod)) {
      Settle(EndOf(*builder, **pod), builder);
    }
  }
  // Of the others nobody will ever tell.
  const std::string lost(ExitCauseName(ExitCause::kNodeLost));
  TrainingJobStatus* const status = builder->mutable_status();
  while (RestartsFor(kCauseEnded, *status) > awaited) {
    status->restarts = WithRestartMoved(std::move(status->restarts), kCauseEnded, lost);
    Rename(kCauseEnded, lost, &status->incidents);
    builder->Count(Metric::kRestarts, lost);
  }
  if (awaited == 0) {  // what is still unnamed was all of pods that somebody asked to go
    std::erase_if(status->incidents,
                  [](const Incident& incident) { return incident.cause == kCauseEnded; });
  }
}

}  // namespace lockstep::control
