#include "operator/reconcile/act/late_verdict.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/contract/exit_code.h"
#include "operator/api/placement.h"
#include "operator/reconcile/act/gang_restart.h"
#include "operator/reconcile/detect/failure.h"
#include "operator/reconcile/gang/departure.h"
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
  // Its peers may have lost it because its work was done.
  member.state = SaysItIsDone(pod) ? MemberState::kSucceeded : MemberState::kFailed;
  return EndedFailure(builder, member);
}

// The incidents that wait for a cause have one.
void Rename(std::string_view from, std::string_view to, std::vector<Incident>* incidents) {
  for (Incident& incident : *incidents) {
    incident.cause = incident.cause == from ? std::string(to) : incident.cause;
  }
}

// Says how the pod ended that was replaced before that was known.
void Tell(const std::string& message, DecisionBuilder* builder) {
  builder->Say(EventType::kWarning, "PodEnded", message);
  if (IsTrue(builder->status(), ConditionType::kRestarting)) {
    SetCondition(builder->mutable_status(),
                 {ConditionType::kRestarting, true, "RankReplaced", message},
                 builder->now());
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
  Tell(message, builder);
}

// Whether the pod goes because its node does not report: that is a loss, whoever deletes it then.
bool IsTakenAlong(const DecisionBuilder& builder, const kube::Pod& pod) {
  const kube::Node* const node = FindNode(builder.observed(), pod.spec.node_name);
  return node != nullptr && !node->is_ready;
}

// Somebody asked the pod before `placement` to go, a drain perhaps, and how it ended nobody has
// told. That is free, so the incident stays unnamed, and is forgotten with the last of them.
// `disruption`: of that pod; empty: somebody deleted it.
void SettleDeparture(const PodPlacement& placement,
                     const std::string& disruption,
                     DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  if (RestartsFor(kCauseEnded, *status) == 0) {
    return;
  }
  const std::string cause(disruption.empty() ? kCauseDeleted : kCauseEvicted);
  status->restarts = WithRestartMoved(std::move(status->restarts), kCauseEnded, cause);
  builder->Count(Metric::kRestarts, cause);
  PodPlacement before = placement;
  before.incarnation = Incarnation(std::max<int64_t>(placement.incarnation.value() - 1, 0));
  const std::string name =
      PodName(builder->job().metadata.name, TaskOf(before), {status->attempt, before.incarnation});
  Tell("pod " + name + " was " + cause + (disruption.empty() ? "" : " (" + disruption + ")") +
           ", cause " + cause + "; costs nothing of runPolicy.backoffLimit",
       builder);
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
    if (pod != view.stale.end() && HasEnded(**pod)) {
      Settle(EndOf(*builder, **pod), builder);
    } else if (pod == view.stale.end()) {
      SettleDeparture(placement, placement.disruption, builder);
    } else if (WasAskedToGo(**pod) && !IsTakenAlong(*builder, **pod)) {
      SettleDeparture(placement, (*pod)->status.disruption, builder);
    }
    placement.disruption.clear();
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
