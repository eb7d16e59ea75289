#include "operator/reconcile/policy/late_verdict.h"

#include <algorithm>
#include <string>

#include "common/contract/exit_code.h"
#include "operator/reconcile/failure.h"
#include "operator/reconcile/pod_labels.h"
#include "operator/reconcile/policy/budget.h"

namespace lockstep::control {
namespace {

// The end of a replaced rank's pod, as its kubelet tells it.
Failure EndOf(const Pass& pass, const kube::Pod& pod) {
  const auto identity = ParsePodLabels(pod.labels);
  Member member;
  member.task = identity->task;
  member.rank = identity->rank;
  member.number = identity->number;
  member.pod_name = pod.name;
  member.pod = &pod;
  return EndedFailure(pass, member);
}

void Settle(const Failure& end, Pass* pass) {
  TrainingJobStatus* const status = pass->mutable_status();
  MoveRestart(kCauseEnded, end.cause, status);
  pass->Count(Metric::kRestarts, end.cause);
  const std::string message = end.sentence + ", cause " + end.cause;
  if (end.response == FailureResponse::kFailJob) {
    pass->Fail("PodFailed", message);
    return;
  }
  pass->Say(EventType::kWarning, "PodEnded", message);
  if (IsTrue(*status, ConditionType::kRestarting)) {
    SetCondition(status, {ConditionType::kRestarting, true, "RankReplaced", message}, pass->now());
  }
}

}  // namespace

bool AwaitsVerdict(const Pass& pass, const kube::Pod& pod) {
  const PodPlacement* const successor = SuccessorOf(pass.status(), pod);
  return successor != nullptr && successor->awaits_verdict && !HasEnded(pod) &&
         pass.now() < successor->since + kVerdictPatience;
}

void LearnVerdicts(const GangView& view, Pass* pass) {
  int64_t awaited = 0;
  for (PodPlacement& placement : pass->mutable_status()->placement) {
    if (!placement.awaits_verdict) {
      continue;
    }
    const auto pod = std::find_if(view.stale.begin(), view.stale.end(), [&](const kube::Pod* one) {
      return SuccessorOf(pass->status(), *one) == &placement;
    });
    if (pod != view.stale.end() && AwaitsVerdict(*pass, **pod)) {
      pass->WakeAt(placement.since + kVerdictPatience);
      ++awaited;
      continue;
    }
    placement.awaits_verdict = false;
    if (pod != view.stale.end() && HasEnded(**pod)) {
      Settle(EndOf(*pass, **pod), pass);
    }
  }
  // Of the others nobody will ever tell.
  const std::string lost(ExitCauseName(ExitCause::kNodeLost));
  while (RestartsFor(kCauseEnded, pass->status()) > awaited) {
    MoveRestart(kCauseEnded, lost, pass->mutable_status());
    pass->Count(Metric::kRestarts, lost);
  }
}

}  // namespace lockstep::control
