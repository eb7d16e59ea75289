#include "operator/reconcile/recovery/late_verdict.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/status/exit_code.h"
#include "operator/api/job/placement.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/failure/verdict_patience.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {
namespace {

// The end of a replaced rank's pod, as its kubelet tells it.
Failure FailureOfEnd(const DecisionBuilder& builder, const kube::Pod& pod) {
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

// The incident without a cause that has paid for the pod which `successor` replaced: the newest of
// its node by then. One that was put together with others has no node, and is any node's. Null:
// another cause has paid for it.
Incident* IncidentOf(const kube::Pod& pod,
                     const PodPlacement& successor,
                     std::vector<Incident>* incidents) {
  Incident* found = nullptr;
  for (Incident& one : *incidents) {
    const bool is_open = one.at <= successor.since && successor.since - one.at <= kIncidentWindow;
    const bool is_its_node = one.node == pod.spec.node_name;
    if (one.cause != kCauseEnded || one.is_free || !is_open ||
        (!is_its_node && !one.node.empty())) {
      continue;
    }
    const bool is_better = found == nullptr || is_its_node || found->node.empty();
    found = is_better ? &one : found;
  }
  return found;
}

void NameIncident(const kube::Pod& pod,
                  const PodPlacement& successor,
                  const std::string& cause,
                  DecisionBuilder* builder) {
  Incident* const incident = IncidentOf(pod, successor, &builder->mutable_failures()->incidents);
  if (incident != nullptr) {
    incident->cause = cause;
  }
}

// Says how the pod ended that was replaced before that was known.
void TellOfPodEnd(const std::string& message, DecisionBuilder* builder) {
  builder->Say(EventType::kWarning, "PodEnded", message);
  if (IsTrue(builder->status(), ConditionType::kRestarting)) {
    builder->SetQuietly({ConditionType::kRestarting, true, "RankReplaced", message});
  }
}

void Settle(const kube::Pod& pod, const PodPlacement& successor, DecisionBuilder* builder) {
  const Failure end = FailureOfEnd(*builder, pod);
  FailureStatus* const failures = builder->mutable_failures();
  failures->restarts = WithRestartMoved(std::move(failures->restarts), kCauseEnded, end.cause);
  if (!IsFree(end)) {
    NameIncident(pod, successor, end.cause, builder);
  }
  builder->Count(Metric::kRestarts, end.cause);
  const std::string message = end.sentence + ", cause " + end.cause;
  if (end.response == FailureResponse::kFailJob) {
    builder->Fail("PodFailed", message);
    return;
  }
  TellOfPodEnd(message, builder);
}

// Whether the pod goes because its node does not report: that is a loss, whoever deletes it then.
bool IsTakenAlong(const DecisionBuilder& builder, const kube::Pod& pod) {
  const kube::Node* const node = FindNode(builder.observed(), pod.spec.node_name);
  return node != nullptr && !node->is_ready;
}

std::string LostCause() {
  return std::string(ExitCauseName(ExitCause::kNodeLost));
}

// Nobody will ever tell of one more: it is lost. Whether there was one to be told of.
bool CountLost(int64_t awaited, DecisionBuilder* builder) {
  FailureStatus* const failures = builder->mutable_failures();
  if (RestartsFor(kCauseEnded, *failures) <= awaited) {
    return false;
  }
  failures->restarts = WithRestartMoved(std::move(failures->restarts), kCauseEnded, LostCause());
  builder->Count(Metric::kRestarts, LostCause());
  return true;
}

// All but the `awaited` pods. Of those whose placement is given up meanwhile nobody will ever tell:
// they are lost. What is still unnamed then was of pods that somebody asked to go.
void SettleRest(const std::vector<const kube::Pod*>& awaited, DecisionBuilder* builder) {
  FailureStatus* const failures = builder->mutable_failures();
  std::set<const Incident*> kept;
  for (const kube::Pod* pod : awaited) {
    kept.insert(IncidentOf(*pod, *SuccessorOf(builder->status(), *pod), &failures->incidents));
  }
  bool is_lost = false;
  while (CountLost(static_cast<int64_t>(awaited.size()), builder)) {
    is_lost = true;
  }
  std::vector<Incident> incidents;
  for (Incident& one : failures->incidents) {
    const bool is_unnamed = one.cause == kCauseEnded && kept.count(&one) == 0;
    if (is_unnamed && is_lost) {
      one.cause = LostCause();
    }
    if (!is_unnamed || is_lost) {
      incidents.push_back(std::move(one));
    }
  }
  failures->incidents = std::move(incidents);
}

// Somebody asked the pod before `placement` to go, a drain perhaps, and how it ended nobody has
// told. That is free, so the incident stays unnamed, and is forgotten with the last of them.
// `disruption`: of that pod; empty: somebody deleted it.
void SettleDeparture(const PodPlacement& placement,
                     const std::string& disruption,
                     DecisionBuilder* builder) {
  FailureStatus* const failures = builder->mutable_failures();
  if (RestartsFor(kCauseEnded, *failures) == 0) {
    return;
  }
  const std::string cause(disruption.empty() ? kCauseDeleted : kCauseEvicted);
  failures->restarts = WithRestartMoved(std::move(failures->restarts), kCauseEnded, cause);
  builder->Count(Metric::kRestarts, cause);
  PodPlacement before = placement;
  before.incarnation = Incarnation(std::max<int64_t>(placement.incarnation.value() - 1, 0));
  const std::string name = PodName(builder->job().metadata.name,
                                   TaskOf(before),
                                   {builder->status().attempt, before.incarnation});
  TellOfPodEnd("pod " + name + " was " + cause +
                   (disruption.empty() ? "" : " (" + disruption + ")") + ", cause " + cause +
                   "; does not count against runPolicy.backoffLimit",
               builder);
}

}  // namespace

bool AwaitsVerdict(const DecisionBuilder& builder, const kube::Pod& pod) {
  const PodPlacement* const successor = SuccessorOf(builder.status(), pod);
  return successor != nullptr && successor->awaits_verdict && !HasEnded(pod) &&
         builder.now() < successor->since + kVerdictPatience;
}

void LearnVerdicts(const GangView& view, DecisionBuilder* builder) {
  std::vector<const kube::Pod*> awaited;
  for (PodPlacement& placement : builder->mutable_placement()->placement) {
    if (!placement.awaits_verdict) {
      continue;
    }
    const auto pod = std::find_if(view.stale.begin(), view.stale.end(), [&](const kube::Pod* one) {
      return SuccessorOf(builder->status(), *one) == &placement;
    });
    if (pod != view.stale.end() && AwaitsVerdict(*builder, **pod)) {
      builder->WakeAt(placement.since + kVerdictPatience);
      awaited.push_back(*pod);
      continue;
    }
    placement.awaits_verdict = false;
    if (pod != view.stale.end() && HasEnded(**pod)) {
      Settle(**pod, placement, builder);
    } else if (pod == view.stale.end()) {
      SettleDeparture(placement, placement.disruption, builder);
    } else if (WasAskedToGo(**pod) && !IsTakenAlong(*builder, **pod)) {
      SettleDeparture(placement, (*pod)->status.disruption, builder);
    } else {
      NameIncident(**pod, placement, LostCause(), builder);
      CountLost(/*awaited=*/0, builder);
    }
    placement.disruption.clear();
  }
  SettleRest(awaited, builder);
}

}  // namespace lockstep::control
