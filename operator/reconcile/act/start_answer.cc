#include "operator/reconcile/act/start_answer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "operator/api/conditions.h"
#include "operator/api/placement.h"
#include "operator/reconcile/act/gang_restart.h"
#include "operator/reconcile/act/successor.h"
#include "operator/reconcile/policy/budget.h"

namespace lockstep::control {
namespace {

// Restarting's reason while a replacement that could not start is tried on another node.
constexpr std::string_view kMoved = "ReplacementMoved";

// Whether the pods that cannot start may be tried on other nodes, each of them.
bool CanMove(const GangView& view,
             const std::vector<StartProblem>& problems,
             const DecisionBuilder& builder) {
  const Condition* const restarting = FindCondition(builder.status(), ConditionType::kRestarting);
  const bool has_moved =
      restarting != nullptr && restarting->is_true && restarting->reason == kMoved;
  return builder.is_training() && !has_moved &&
         std::all_of(problems.begin(), problems.end(), [&](const StartProblem& problem) {
           return !NodeElsewhere(view, {problem.task, true}, builder).empty();
         });
}

void Move(const GangView& view,
          const std::vector<StartProblem>& problems,
          DecisionBuilder* builder) {
  std::vector<Successor> successors;
  for (const StartProblem& problem : problems) {
    successors.push_back({problem.task, true});
    PodPlacement* const placement = builder->PlacementOf(problem.task);
    placement->incarnation = placement->incarnation.Next();
    placement->since = builder->now();
    placement->pod_uid.clear();
    placement->devices.clear();
    TrainingJobStatus* const status = builder->mutable_status();
    status->restarts = WithRestart(std::move(status->restarts), kCauseNotStarted);
    builder->Count(Metric::kRestarts, std::string(kCauseNotStarted));
  }
  PlaceSuccessors(view, successors, builder);
  builder->Set({ConditionType::kRestarting,
                true,
                std::string(kMoved),
                problems.front().sentence + "; tried on another node"},
               EventType::kWarning);
}

}  // namespace

void WakeForStartProblems(const PodPlacement& placement, DecisionBuilder* builder) {
  for (const auto patience :
       {kUnschedulablePatience, kImagePatience, kUnboundPatience, kNodePatience}) {
    builder->WakeAt(placement.since + patience);
  }
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
  if (!HasRun(builder->status())) {
    RollBackGang(problems.front().reason, problems.front().sentence, builder);
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
    RestartGang(failure, builder);
  }
}

}  // namespace lockstep::control
