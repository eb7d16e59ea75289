#include "operator/reconcile/failure/start_problem.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/contract/text/text.h"
#include "operator/api/job/placement.h"
#include "operator/capacity/pod_group.h"
#include "operator/reconcile/gang/gang_binding.h"
#include "operator/reconcile/pods/admission_change.h"

namespace lockstep::control {
namespace {

// Words of others longer than this are cut where people read them.
constexpr std::size_t kProblemBytesMax = 300;

// Different words of one scheduler that are repeated. Choice: the pods of a gang are of few kinds.
constexpr std::size_t kVoicesMax = 3;

// Ways in which a node takes a pod back that did run. Source: the kubelet, Kubernetes 1.36.
constexpr std::array<std::string_view, 8> kTakenBack = {"DeadlineExceeded",
                                                        "Evicted",
                                                        "NodeLost",
                                                        "NodeShutdown",
                                                        "Preempting",
                                                        "Shutdown",
                                                        "Terminated",
                                                        "ContainerStatusUnknown"};

constexpr std::array<std::string_view, 4> kImageReasons = {
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError"};

template <std::size_t kSize>
bool Contains(const std::array<std::string_view, kSize>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string With(const std::string& what, const std::string& words) {
  return words.empty() ? what : what + ": " + CutText(words, kProblemBytesMax);
}

std::string SecondsText(std::chrono::milliseconds waited) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) + " s";
}

// What a kubelet says of a container that it has yet to start.
std::string WhyNoContainer(const kube::PodStatus& status) {
  const std::string& reason = status.waiting_reason;
  return With((Contains(kImageReasons, reason) ? "cannot pull its image ("
                                               : "cannot start its container (") +
                  reason + ")",
              status.waiting_message);
}

// Adds words that nobody has said yet.
void AddWords(const std::string& words, std::vector<std::string>* said) {
  if (!words.empty() && std::find(said->begin(), said->end(), words) == said->end()) {
    said->push_back(words);
  }
}

// What kube-scheduler says of the gang's PodGroup; empty: nothing.
std::string GroupsWords(const DecisionBuilder& builder) {
  const NativeSight& sight = builder.observed().native;
  const CapacityObject* const group = FindPodGroup(sight, builder.status().pod_group);
  return group != nullptr && group->is_ours && sight.served.version
             ? WhyNotPlaced(group->conditions, *sight.served.version)
             : "";
}

// What kube-scheduler says of a gang that it has not placed: of those for which it finds no node,
// and of those that wait for them. Each only once, the member's own first.
std::string SchedulersWords(const Member& member,
                            const GangView& view,
                            const DecisionBuilder& builder) {
  std::vector<std::string> said;
  AddWords(member.pod->status.unschedulable, &said);
  for (const Member& other : view.members) {
    if (other.pod != nullptr && said.size() < kVoicesMax) {
      AddWords(other.pod->status.unschedulable, &said);
    }
  }
  AddWords(GroupsWords(builder), &said);
  std::string text;
  for (const std::string& words : said) {
    text += (text.empty() ? "" : "; ") + CutText(words, kProblemBytesMax);
  }
  return text;
}

std::string WhyNotBound(const Member& member,
                        const GangView& view,
                        const DecisionBuilder& builder) {
  return IsPlacedNatively(builder.status())
             ? "is not placed by kube-scheduler: " + SchedulersWords(member, view, builder)
             : With("cannot be bound to " + member.node, member.pod->status.unschedulable);
}

// One member that does not run, and how long it has been waited for.
struct Candidate {
  const DecisionBuilder& builder;
  const GangView& view;
  const Member& member;
  const PodPlacement& placement;
  bool has_run;  // the gang

  std::chrono::milliseconds waited() const { return builder.now() - placement.since; }

  // How long something has kept its pod from starting.
  std::chrono::milliseconds troubled() const {
    return builder.now() - placement.trouble_since.value_or(builder.now());
  }

  StartProblem Problem(const std::string& reason, const std::string& what) const {
    return {member.task, reason, DescribeMember(member) + " " + what, false};
  }

  StartProblem FinalProblem(const std::string& reason, const std::string& what) const {
    return {member.task, reason, DescribeMember(member) + " " + what, true};
  }
};

std::optional<StartProblem> NotCreated(const Candidate& one) {
  const auto refusal = one.builder.observed().refused_pods.find(one.member.pod_name);
  if (one.member.state != MemberState::kNotSeen ||
      refusal == one.builder.observed().refused_pods.end()) {
    return std::nullopt;
  }
  const std::string what = With("was not created", refusal->second.message);
  return refusal->second.is_invalid
             ? one.FinalProblem(
                   "InvalidPod",
                   what +
                       ". If the manifest does not set the refused field, a LimitRange or an "
                       "admission webhook of the job's namespace may have set it")
             : one.Problem(std::string(kPodNotCreated), what);
}

// Without its PodGroup no pod of the gang would be placed, so none is created.
std::optional<StartProblem> NoPodGroup(const Candidate& one) {
  const TrainingJobStatus& status = one.builder.status();
  const NativeSight& sight = one.builder.observed().native;
  if (!AwaitsPodGroup(status, sight, one.member)) {
    return std::nullopt;
  }
  const std::string what = "waits for PodGroup " + status.pod_group;
  const CapacityObject* const group = FindPodGroup(sight, status.pod_group);
  if (group != nullptr && !group->is_ours) {
    return one.Problem(std::string(kPodGroupNotMade), what + ", which does not belong to this job");
  }
  const auto refusal = sight.refusals.find(status.pod_group);
  if (refusal != sight.refusals.end() && one.waited() >= kUnschedulablePatience) {
    return one.Problem(std::string(kPodGroupNotMade),
                       With(what + ", which was not created", refusal->second));
  }
  if (one.waited() >= kUnboundPatience) {
    return one.Problem(
        std::string(kPodGroupNotMade),
        what + ", which still does not exist after " + SecondsText(kUnboundPatience));
  }
  return std::nullopt;
}

// A kubelet that does not let a pod in makes it Failed with a reason and without containers.
std::optional<StartProblem> Refused(const Candidate& one) {
  if (one.member.state != MemberState::kFailed) {
    return std::nullopt;
  }
  const kube::PodStatus& status = one.member.pod->status;
  const bool may_have_run = one.has_run && Contains(kTakenBack, status.reason);
  if (status.termination.has_value() || status.reason.empty() || may_have_run) {
    return std::nullopt;
  }
  return one.Problem(
      "PodRefused",
      With("was refused by " + one.member.node + ": " + status.reason, status.message));
}

std::optional<StartProblem> NoContainer(const Candidate& one) {
  const kube::PodStatus& status = one.member.pod->status;
  const std::string& reason = status.waiting_reason;
  if (reason == "InvalidImageName") {
    return one.FinalProblem(reason, With("has an invalid image name", status.waiting_message));
  }
  if (reason.empty() || one.troubled() < kImagePatience) {
    return std::nullopt;
  }
  return one.Problem(Contains(kImageReasons, reason) ? "ImagePullFailed" : "ContainerNotCreated",
                     WhyNoContainer(status));
}

std::optional<StartProblem> NotBound(const Candidate& one) {
  const kube::PodStatus& status = one.member.pod->status;
  if (!status.unschedulable.empty() && one.troubled() >= kUnschedulablePatience) {
    return one.Problem(std::string(kPodUnschedulable),
                       WhyNotBound(one.member, one.view, one.builder));
  }
  if (status.is_unbound && one.waited() >= kUnboundPatience) {
    const bool is_native = IsPlacedNatively(one.builder.status());
    const std::string what = "was not bound to " + (is_native ? "a node" : one.member.node) +
                             " within " + SecondsText(kUnboundPatience);
    return one.Problem(std::string(kPodNotBound),
                       is_native ? With(what, GroupsWords(one.builder)) : what);
  }
  return std::nullopt;
}

// Nobody is there to start the pod.
std::optional<StartProblem> NoNode(const Candidate& one) {
  const std::string& node = one.member.node;
  if (!HasItsNode(one.builder.status(), one.member)) {
    return std::nullopt;
  }
  if (FindNode(one.builder.observed(), node) == nullptr) {
    return one.Problem("NodeNotReady", "waits for node " + node + ", which no longer exists");
  }
  if (!IsNodeReady(one.builder.observed(), node) && one.troubled() >= kNodePatience) {
    return one.Problem("NodeNotReady", "waits for node " + node + ", which is not ready");
  }
  return std::nullopt;
}

std::optional<StartProblem> Late(const Candidate& one) {
  if (!IsStarting(one.member) ||
      StartDeadline(one.builder.job(), one.placement, one.member, one.builder.now()) >
          one.builder.now()) {
    return std::nullopt;
  }
  if (one.member.node.empty()) {
    return one.Problem("NoRoom", "found no room within " + SecondsText(one.waited()));
  }
  if (one.member.state == MemberState::kNotSeen) {
    return one.Problem(std::string(kPodNotCreated),
                       "was not created within " + SecondsText(one.waited()));
  }
  return one.Problem("StartTimeout", "did not start within " + SecondsText(one.waited()));
}

// Whether the member's pod is there and has yet to run.
bool IsComing(const Member& member) {
  const bool is_there = member.state == MemberState::kPending ||
                        member.state == MemberState::kVanished;  // its node has
  return member.pod != nullptr && is_there && member.pod->status.phase == kube::PodPhase::kPending;
}

// Whether something keeps the pod from starting that often mends itself.
bool IsInTrouble(const Member& member, const DecisionBuilder& builder) {
  return IsComing(member) &&
         (!member.pod->status.waiting_reason.empty() || !member.pod->status.unschedulable.empty() ||
          (HasItsNode(builder.status(), member) && !IsNodeReady(builder.observed(), member.node)));
}

// What that is. Precondition: IsInTrouble.
std::string DescribeTrouble(const Member& member,
                            const GangView& view,
                            const DecisionBuilder& builder) {
  const kube::PodStatus& status = member.pod->status;
  return DescribeMember(member) + " " +
         (!status.waiting_reason.empty() ? WhyNoContainer(status)
          : !status.unschedulable.empty()
              ? WhyNotBound(member, view, builder)
              : "waits for node " + member.node + ", which is not ready");
}

std::optional<StartProblem> ProblemOf(const Candidate& one) {
  if (auto problem = NotCreated(one)) {
    return problem;
  }
  if (auto problem = NoPodGroup(one)) {
    return problem;
  }
  if (auto problem = Refused(one)) {
    return problem;
  }
  if (IsComing(one.member)) {
    for (const auto& problem : {NoContainer(one), NotBound(one), NoNode(one)}) {
      if (problem.has_value()) {
        return problem;
      }
    }
  }
  return Late(one);
}

}  // namespace

WallTime StartDeadline(const TrainingJob& job,
                       const PodPlacement& placement,
                       const Member& member,
                       WallTime now) {
  if (member.rank.has_value() && member.number.incarnation.value() > 0) {
    return placement.since + job.spec.recovery.replacement_timeout;
  }
  const std::chrono::seconds timeout = job.spec.scheduling.start_timeout;
  WallTime progress = placement.since;
  if (member.pod != nullptr) {
    const kube::PodStatus& status = member.pod->status;
    // The kubelet's clock is not ours: what it says counts from the placement until now.
    progress = status.is_initializing ? std::max(now, placement.since)
                                      : std::clamp(status.progress_at.value_or(placement.since),
                                                   placement.since,
                                                   std::max(now, placement.since));
  }
  return std::min(progress + timeout, placement.since + kStartExtensionMax * timeout);
}

bool IsStarting(const Member& member) {
  return member.state == MemberState::kNotSeen || member.state == MemberState::kPending;
}

void NoteTrouble(const GangView& view, DecisionBuilder* builder) {
  for (const Member& member : view.members) {
    PodPlacement* const placement = builder->PlacementOf(member.task);
    if (!IsInTrouble(member, *builder)) {
      placement->trouble_since.reset();
    } else if (!placement->trouble_since || *placement->trouble_since < placement->since) {
      placement->trouble_since = builder->now();  // an older one's was of another pod
    }
  }
}

void TellOfTrouble(const GangView& view, DecisionBuilder* builder) {
  const Condition* const scheduled = FindCondition(builder->status(), ConditionType::kScheduled);
  if (scheduled == nullptr || !scheduled->is_true) {
    return;
  }
  const auto troubled =
      std::find_if(view.members.begin(), view.members.end(), [&](const Member& member) {
        return IsInTrouble(member, *builder);
      });
  if (troubled != view.members.end() && !builder->status().has_run) {
    builder->SetQuietly({ConditionType::kScheduled,
                         true,
                         std::string(kReasonPodWaits),
                         WithAdmission(DescribeTrouble(*troubled, view, *builder) +
                                           "; the operator waits for the pod",
                                       *troubled,
                                       builder->job())});
  } else if (scheduled->reason == kReasonPodWaits) {
    builder->SetQuietly(
        {ConditionType::kScheduled, true, "GangPlaced", "all pods can start again"});
  }
}

std::vector<StartProblem> FindStartProblems(const DecisionBuilder& builder, const GangView& view) {
  const bool has_run = builder.status().has_run;
  std::vector<StartProblem> problems;
  for (const Member& member : view.members) {
    if (has_run && !member.rank.has_value()) {
      continue;
    }
    const PodPlacement& placement = *FindPlacement(builder.status(), member.task);
    if (auto problem = ProblemOf({builder, view, member, placement, has_run})) {
      problems.push_back(*std::move(problem));
    }
  }
  return problems;
}

}  // namespace lockstep::control
