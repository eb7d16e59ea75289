#include "operator/reconcile/start/start_answer.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/gang/gang_binding.h"
#include "operator/reconcile/gang/suspect_nodes.h"
#include "operator/reconcile/pods/admission_change.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/reconcile/recovery/refused_replacement.h"
#include "operator/reconcile/recovery/successor.h"

namespace lockstep::control {
namespace {

// Restarting's reason while a replacement that could not start is tried on another node.
constexpr std::string_view kMoved = "ReplacementMoved";

// Whether the pods that cannot start may be tried on other nodes, each of them: once until the gang
// is whole.
bool CanMove(const GangView& view,
             const std::vector<StartProblem>& problems,
             const DecisionBuilder& builder) {
  return builder.is_training() &&
         std::all_of(problems.begin(), problems.end(), [&](const StartProblem& problem) {
           return !FindPlacement(builder.status(), problem.task)->has_moved &&
                  !NodeElsewhere(view, {problem.task, true}, builder).empty();
         });
}

void Move(const GangView& view,
          const std::vector<StartProblem>& problems,
          DecisionBuilder* builder) {
  std::vector<Successor> successors;
  for (const StartProblem& problem : problems) {
    successors.push_back({problem.task, true});
    PodPlacement* const placement = builder->PlacementOf(problem.task);
    BeginSuccessor(placement, builder->now());
    placement->has_moved = true;
    FailureStatus* const failures = builder->mutable_failures();
    failures->restarts = WithRestart(std::move(failures->restarts), kCauseNotStarted);
    builder->Count(Metric::kRestarts, std::string(kCauseNotStarted));
  }
  PlaceSuccessors(view, successors, builder);
  builder->Set({ConditionType::kRestarting,
                true,
                std::string(kMoved),
                problems.front().sentence + "; Lockstep tries another node"},
               EventType::kWarning);
}

// Whether the node where the pod was to stand can be at fault.
bool IsOfNode(const StartProblem& problem, const TrainingJobStatus& status) {
  const bool is_unbound = problem.reason == kPodUnschedulable || problem.reason == kPodNotBound;
  return problem.reason != kPodNotCreated && problem.reason != kPodGroupNotMade &&
         !(is_unbound && IsPlacedNatively(status));
}

// Nodes are remembered unless the problem cannot be theirs.
void SuspectNodes(const std::vector<StartProblem>& problems, DecisionBuilder* builder) {
  std::set<std::string> seen;
  for (const StartProblem& problem : problems) {
    const std::string node = builder->PlacementOf(problem.task)->node;
    if (IsOfNode(problem, builder->status()) && !node.empty() && seen.insert(node).second) {
      WaitingStatus* const waiting = builder->mutable_waiting();
      waiting->suspect_nodes =
          WithSuspect(std::move(waiting->suspect_nodes), node, problem.reason, builder->now());
    }
  }
}

// The problem, and what has become of its pod on the way into the cluster if that may be why.
std::string ProblemSentenceOf(const GangView& view,
                              const StartProblem& problem,
                              const DecisionBuilder& builder) {
  const auto member = std::find_if(view.members.begin(), view.members.end(), [&](const auto& one) {
    return one.task == problem.task;
  });
  return member == view.members.end() ? problem.sentence
                                      : WithAdmission(problem.sentence, *member, builder.job());
}

}  // namespace

void WakeForStartProblems(const PodPlacement& placement, DecisionBuilder* builder) {
  builder->WakeAt(placement.since + kUnboundPatience);
  if (placement.trouble_since.has_value()) {
    for (const auto patience : {kUnschedulablePatience, kImagePatience, kNodePatience}) {
      builder->WakeAt(*placement.trouble_since + patience);
    }
  }
}

bool RollBackOverQuota(DecisionBuilder* builder) {
  const std::string& excess = builder->observed().quota_excess;
  if (excess.empty() || builder->status().has_run || builder->status().admitted.empty()) {
    return false;
  }
  RollBackGang(std::string(kQuotaExceeded),
               "a LimitRange or a webhook raised the requests of its pods above the template's (" +
                   DescribeRaised(builder->status()) + "): " + excess,
               builder);
  return true;
}

void AnswerStartProblems(const GangView& view,
                         const std::vector<StartProblem>& problems,
                         DecisionBuilder* builder) {
  const auto final_problem =
      std::find_if(problems.begin(), problems.end(), [](const auto& one) { return one.is_final; });
  if (final_problem != problems.end()) {
    builder->Fail(final_problem->reason, final_problem->sentence);
    return;
  }
  SuspectNodes(problems, builder);
  const auto refused =
      std::find_if(problems.begin(), problems.end(), [](const StartProblem& problem) {
        return problem.reason == kPodNotCreated;
      });
  if (!builder->status().has_run || (refused != problems.end() && !HasSurvivor(view))) {
    const StartProblem& why = builder->status().has_run ? *refused : problems.front();
    RollBackGang(why.reason, ProblemSentenceOf(view, why, *builder), builder);
    return;
  }
  Failure failure;
  failure.task = problems.front().task;
  failure.sentence = problems.front().sentence;
  const bool can_move = CanMove(view, problems, *builder);
  failure.cause = can_move ? kCauseNotStarted : kCauseStartTimeout;
  if (!SpendBudget({failure}, builder)) {
    return;
  }
  if (can_move) {
    Move(view, problems, builder);
  } else {
    RestartGang(failure, "", builder);
  }
}

}  // namespace lockstep::control
