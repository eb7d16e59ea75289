#include "operator/reconcile/start_problem.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/contract/text.h"
#include "operator/api/conditions.h"
#include "operator/api/placement.h"
#include "operator/reconcile/policy/budget.h"
#include "operator/reconcile/policy/deadline.h"
#include "operator/reconcile/policy/gang_restart.h"
#include "operator/reconcile/policy/successor.h"

namespace lockstep::control {
namespace {

// Words of others longer than this are cut where people read them.
constexpr std::size_t kWordsBytesMax = 300;

// Restarting's reason while a replacement that could not start is tried on another node.
constexpr std::string_view kMoved = "ReplacementMoved";

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
  return words.empty() ? what : what + ": " + CutText(words, kWordsBytesMax);
}

std::string SecondsText(std::chrono::milliseconds waited) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) + " s";
}

// One member that does not run, and how long it has been waited for.
struct Candidate {
  const Pass& pass;
  const Member& member;
  const PodPlacement& placement;
  bool has_run;  // the gang

  std::chrono::milliseconds waited() const { return pass.now() - placement.since; }

  StartProblem Problem(const std::string& reason, const std::string& what) const {
    return {member.task, reason, DescribeMember(member) + " " + what, false};
  }

  StartProblem FinalProblem(const std::string& reason, const std::string& what) const {
    return {member.task, reason, DescribeMember(member) + " " + what, true};
  }
};

std::optional<StartProblem> NotCreated(const Candidate& one) {
  const auto refusal = one.pass.observed().refused_pods.find(one.member.pod_name);
  if (one.member.state != MemberState::kNotSeen ||
      refusal == one.pass.observed().refused_pods.end()) {
    return std::nullopt;
  }
  const std::string what = With("was not created", refusal->second.message);
  return refusal->second.is_invalid ? one.FinalProblem("InvalidPod", what)
                                    : one.Problem("PodNotCreated", what);
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
  if (reason.empty() || one.waited() < kImagePatience) {
    return std::nullopt;
  }
  if (Contains(kImageReasons, reason)) {
    return one.Problem("ImagePullFailed",
                       With("cannot get its image, " + reason, status.waiting_message));
  }
  return one.Problem("ContainerNotCreated",
                     With("cannot start its container, " + reason, status.waiting_message));
}

std::optional<StartProblem> NotBound(const Candidate& one) {
  const kube::PodStatus& status = one.member.pod->status;
  if (!status.unschedulable.empty() && one.waited() >= kUnschedulablePatience) {
    return one.Problem("PodUnschedulable",
                       With("cannot be bound to " + one.member.node, status.unschedulable));
  }
  if (status.is_unbound && one.waited() >= kUnboundPatience) {
    return one.Problem(
        "PodNotBound",
        "was not bound to " + one.member.node + " within " + SecondsText(kUnboundPatience));
  }
  return std::nullopt;
}

// Nobody is there to start the pod.
std::optional<StartProblem> NoNode(const Candidate& one) {
  const std::string& node = one.member.node;
  if (FindNode(one.pass.observed(), node) == nullptr) {
    return one.Problem("NodeNotReady", "waits for node " + node + ", which is gone");
  }
  if (!IsNodeReady(one.pass.observed(), node) && one.waited() >= kNodePatience) {
    return one.Problem("NodeNotReady", "waits for node " + node + ", which is not ready");
  }
  return std::nullopt;
}

std::optional<StartProblem> Late(const Candidate& one) {
  if (!IsStarting(one.member) ||
      StartDeadline(one.pass.job(), one.placement, one.member) > one.pass.now()) {
    return std::nullopt;
  }
  if (one.member.node.empty()) {
    return one.Problem("NoRoom", "found no room within " + SecondsText(one.waited()));
  }
  return one.Problem("StartTimeout", "did not start within " + SecondsText(one.waited()));
}

std::optional<StartProblem> ProblemOf(const Candidate& one) {
  if (auto problem = NotCreated(one)) {
    return problem;
  }
  if (auto problem = Refused(one)) {
    return problem;
  }
  const kube::Pod* const pod = one.member.pod;
  const bool is_there = one.member.state == MemberState::kPending ||
                        one.member.state == MemberState::kVanished;  // its node has
  if (pod != nullptr && is_there && pod->status.phase == kube::PodPhase::kPending) {
    for (const auto& problem : {NoContainer(one), NotBound(one), NoNode(one)}) {
      if (problem.has_value()) {
        return problem;
      }
    }
  }
  return Late(one);
}

// Whether the pods that cannot start may be tried on other nodes, each of them.
bool CanMove(const GangView& view, const std::vector<StartProblem>& problems, const Pass& pass) {
  const Condition* const restarting = FindCondition(pass.status(), ConditionType::kRestarting);
  const bool has_moved =
      restarting != nullptr && restarting->is_true && restarting->reason == kMoved;
  return pass.is_training() && !has_moved &&
         HasBudget(pass.status(), pass.spec().run_policy.backoff_limit, kCauseNotStarted) &&
         std::all_of(problems.begin(), problems.end(), [&](const StartProblem& problem) {
           return !NodeElsewhere(view, {problem.task, true}, pass).empty();
         });
}

void Move(const GangView& view, const std::vector<StartProblem>& problems, Pass* pass) {
  std::vector<Successor> successors;
  for (const StartProblem& problem : problems) {
    successors.push_back({problem.task, true});
    PodPlacement* const placement = pass->PlacementOf(problem.task);
    placement->incarnation = placement->incarnation.Next();
    placement->since = pass->now();
    placement->pod_uid.clear();
    placement->devices.clear();
    CountRestart(kCauseNotStarted, pass->mutable_status());
    pass->Count(Metric::kRestarts, std::string(kCauseNotStarted));
  }
  PlaceSuccessors(view, successors, pass);
  pass->Set({ConditionType::kRestarting,
             true,
             std::string(kMoved),
             problems.front().sentence + "; tried on another node"},
            EventType::kWarning);
}

}  // namespace

std::vector<StartProblem> FindStartProblems(const Pass& pass, const GangView& view) {
  const bool has_run = HasRun(pass.status());
  std::vector<StartProblem> problems;
  for (const Member& member : view.members) {
    if (has_run && !member.rank.has_value()) {
      continue;
    }
    const PodPlacement& placement = *FindPlacement(pass.status(), member.task);
    if (auto problem = ProblemOf({pass, member, placement, has_run})) {
      problems.push_back(*std::move(problem));
    }
  }
  return problems;
}

void WakeForStartProblems(const PodPlacement& placement, Pass* pass) {
  for (const auto patience :
       {kUnschedulablePatience, kImagePatience, kUnboundPatience, kNodePatience}) {
    pass->WakeAt(placement.since + patience);
  }
}

void AnswerStartProblems(const GangView& view,
                         const std::vector<StartProblem>& problems,
                         Pass* pass) {
  const auto final_problem =
      std::find_if(problems.begin(), problems.end(), [](const auto& one) { return one.is_final; });
  if (final_problem != problems.end()) {
    pass->Fail(final_problem->reason, final_problem->sentence);
    return;
  }
  if (!HasRun(pass->status())) {
    RollBackGang(problems.front().reason, problems.front().sentence, pass);
    return;
  }
  if (CanMove(view, problems, *pass)) {
    Move(view, problems, pass);
    return;
  }
  Failure failure;
  failure.task = problems.front().task;
  failure.cause = kCauseStartTimeout;
  failure.sentence = problems.front().sentence;
  if (RequireBudget({failure}, pass)) {
    RestartGang(failure, pass);
  }
}

}  // namespace lockstep::control
