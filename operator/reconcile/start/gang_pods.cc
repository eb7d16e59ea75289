#include "operator/reconcile/start/gang_pods.h"

#include <algorithm>
#include <utility>

#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/gang_binding.h"
#include "operator/reconcile/pods/grace.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/pods/pod_request.h"
#include "operator/reconcile/recovery/late_verdict.h"
#include "operator/reconcile/recovery/refused_replacement.h"
#include "operator/reconcile/start/old_pods.h"
#include "operator/reconcile/start/start_answer.h"

namespace lockstep::control {
namespace {

// A pod that was decided and does not appear is created again after this long. Choice: a create
// that was lost costs no more than a second, and one that is only slow to appear is harmless.
constexpr std::chrono::seconds kCreateRetry{1};

// Of one decision; the next one makes more. Choice: a gang of 4096 pods is made at once, one whose
// template has a megabyte does not take a gigabyte of memory.
constexpr std::size_t kCreationBytesMany = std::size_t{16} << 20U;

// Whether the member's pod may be created beside what is left of its predecessors: never beside one
// that was not even asked to end, and where a successor inherits the address not before that is
// free.
bool MayStart(const DecisionBuilder& builder, const Member& member) {
  const bool inherits_address =
      std::holds_alternative<LoopbackAddressing>(builder.topology().addressing);
  // Without the cluster's scheduler nobody but us waits until a predecessor's room is free.
  const bool is_direct = builder.spec().scheduling.binding == PodBinding::kDirect &&
                         !IsPlacedNatively(builder.status());
  return member.predecessor == Predecessor::kGone ||
         (member.predecessor == Predecessor::kLeaving && !inherits_address && !is_direct);
}

// Whether the member's pod was decided, was never seen, and may be created now.
bool IsCreatable(const DecisionBuilder& builder, const Member& member) {
  return member.state == MemberState::kNotSeen && !member.node.empty() &&
         MayStart(builder, member) && builder.observed().service != ServiceState::kForeign &&
         !AwaitsPodGroup(builder.status(), builder.observed().native, member);
}

std::size_t BytesOf(const kube::ContainerSpec& container) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : container.env) {
    bytes += name.size() + value.size();
  }
  for (const std::string& word : container.command) {
    bytes += word.size();
  }
  return bytes;
}

// Whether the pod's removal waits for its successor, which is about to be created or has no node
// yet: removing a pod takes the API server as long as creating one, and one that has ended is
// mostly in nobody's way. Where the server has refused the successor it may be: quotas that count
// objects count it.
bool GivesWay(const GangView& view,
              const DecisionBuilder& builder,
              const kube::Pod& pod,
              const TaskId& task) {
  const auto successor = std::find_if(view.members.begin(),
                                      view.members.end(),
                                      [&](const Member& member) { return member.task == task; });
  if (!HasEnded(pod) || successor == view.members.end() || NextTryOf(*successor, builder)) {
    return false;
  }
  const bool is_unbound =
      successor->state == MemberState::kPending && successor->pod->spec.node_name.empty();
  return is_unbound || IsCreatable(builder, *successor);
}

}  // namespace

void CreateMissing(const GangView& view, DecisionBuilder* builder) {
  std::vector<Effect> creations;
  std::size_t bytes = 0;  // that they hold
  const ServiceState service = builder->observed().service;
  bool has_first = false;  // a gang's first pods find the job's key gone if somebody took it away
  for (const Member& member : view.members) {
    const PodPlacement& placement = *builder->PlacementOf(member.task);
    if (IsStarting(member)) {
      builder->WakeAt(StartDeadline(builder->job(), placement, member, builder->now()));
      WakeForStartProblems(placement, builder);
    }
    if (member.state != MemberState::kNotSeen || member.node.empty()) {
      continue;
    }
    const auto next_try = NextTryOf(member, *builder);
    builder->WakeAt(next_try.value_or(builder->now() + kCreateRetry));
    if (!IsCreatable(*builder, member) || next_try.value_or(WallTime{}) > builder->now()) {
      continue;
    }
    if (bytes >= kCreationBytesMany) {
      builder->WakeAt(builder->now());
      break;
    }
    has_first = has_first || member.number.incarnation == Incarnation();
    auto pod = BuildPod(builder->job(),
                        RequestPod(builder->job(), builder->status(), member.task),
                        builder->observed().settings);
    if (!pod.ok()) {
      builder->Fail("InvalidPod", "pod " + member.pod_name + ": " + pod.error().ToString());
      return;
    }
    bytes += BytesOf(pod->spec.container);
    creations.push_back(CreatePod{std::move(pod).value()});
  }
  const bool is_wanted = has_first || service == ServiceState::kMissing;
  if (service != ServiceState::kNotNeeded && service != ServiceState::kForeign && is_wanted &&
      !view.members.empty()) {
    builder->Do(PrepareJob{});
  } else if (service == ServiceState::kReady && !creations.empty()) {
    builder->Do(RenewKey{});
  }
  for (Effect& creation : creations) {
    builder->Do(std::move(creation));
  }
}

void RemoveStale(const GangView& view, DecisionBuilder* builder) {
  for (const kube::Pod* pod : view.stale) {
    const auto name = ParsePodName(pod->name);
    const bool is_superseded =
        name.has_value() && name->number.attempt == builder->status().attempt;
    const bool is_forced = MayBeForced(*pod, *builder);
    const bool is_given_up =
        !pod->spec.node_name.empty() && !IsNodeReady(builder->observed(), pod->spec.node_name);
    if (!is_superseded && is_forced && is_given_up) {
      builder->Delete(
          *pod, std::chrono::seconds(0), "the attempt is over, and the pod's node does not report");
    } else if (!is_superseded && is_forced && IsOverdue(*pod, builder->now())) {
      builder->Delete(
          *pod, std::chrono::seconds(0), "the attempt is over, and the node does not end the pod");
    } else if (!is_superseded) {
      builder->Delete(*pod,
                      GraceOf(*pod, builder->status(), builder->observed(), builder->is_training()),
                      "the attempt is over");
    } else if (!AwaitsVerdict(*builder, *pod) && (!pod->is_deleting || !HasEnded(*pod)) &&
               !GivesWay(view, *builder, *pod, name->task)) {
      builder->Delete(
          *pod,
          is_forced || HasEnded(*pod)
              ? std::chrono::seconds(0)
              : GraceOf(*pod, builder->status(), builder->observed(), builder->is_training()),
          "replaced");
    }
  }
}

}  // namespace lockstep::control
