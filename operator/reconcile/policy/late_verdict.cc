#include "operator/reconcile/policy/late_verdict.h"

#include <algorithm>
#include <vector>

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
  return successor != nullptr && !HasEnded(pod) && RestartsFor(kCauseEnded, pass.status()) > 0 &&
         pass.now() < successor->since + kVerdictPatience;
}

void LearnVerdicts(const GangView& view, Pass* pass) {
  int64_t pending = RestartsFor(kCauseEnded, pass->status());
  if (pending == 0) {
    return;
  }
  std::vector<Failure> ends;
  for (const kube::Pod* pod : view.stale) {
    if (AwaitsVerdict(*pass, *pod)) {
      pass->WakeAt(SuccessorOf(pass->status(), *pod)->since + kVerdictPatience);
      --pending;
    } else if (SuccessorOf(pass->status(), *pod) != nullptr && HasEnded(*pod)) {
      ends.push_back(EndOf(*pass, *pod));
    }
  }
  for (const Failure& end : ends) {
    if (pending > 0) {
      Settle(end, pass);
      --pending;
    }
  }
  for (; pending > 0; --pending) {  // nobody will ever tell
    MoveRestart(kCauseEnded, ExitCauseName(ExitCause::kNodeLost), pass->mutable_status());
    pass->Count(Metric::kRestarts, std::string(ExitCauseName(ExitCause::kNodeLost)));
  }
}

}  // namespace lockstep::control
