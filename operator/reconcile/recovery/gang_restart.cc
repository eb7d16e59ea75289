#include "operator/reconcile/recovery/gang_restart.h"

#include <algorithm>
#include <utility>

#include "common/base/plural.h"
#include "common/contract/environment/relaunch.h"
#include "common/contract/status/exit_code.h"
#include "operator/reconcile/backoff.h"
#include "operator/reconcile/failure/budget.h"

namespace lockstep::control {

namespace {

int64_t CheckpointStep(const TrainingJobStatus& status) {
  return status.progress.has_value() ? status.progress->checkpoint_step : 0;
}

// Of a gang that is started anew now: how often in a row it broke before it was steady.
int64_t QuickRestarts(const DecisionBuilder& builder) {
  const Condition* const running = FindCondition(builder.status(), ConditionType::kRunning);
  const bool was_steady = running != nullptr && running->is_true &&
                          builder.now() - running->last_transition >= kSteadyAfter;
  return was_steady ? 1 : builder.status().quick_restarts + 1;
}

}  // namespace

bool IsFree(const Failure& failure) {
  return failure.is_voluntary || IsFreeCause(failure.cause);
}

bool SpendBudget(const std::vector<Failure>& failures, DecisionBuilder* builder) {
  FailureStatus* const known = builder->mutable_failures();
  std::vector<Charge> charges;
  const Failure* blamed = &failures.front();
  for (const Failure& failure : failures) {
    const PodPlacement& placement = *builder->PlacementOf(failure.task);
    charges.push_back({failure.cause, placement.node, placement.since, IsFree(failure)});
    blamed = IsFree(*blamed) && !IsFree(failure) ? &failure : blamed;
  }
  const BudgetTerms terms = {builder->spec().recovery.rendezvous_timeout,
                             CheckpointStep(builder->status())};
  std::vector<Incident> incidents = Charged(known->incidents, charges, terms, builder->now());
  const int64_t limit = builder->spec().run_policy.backoff_limit;
  const int64_t used = CountedIncidents(known->incidents);
  const int64_t free_used = FreeIncidents(known->incidents);
  const std::string what = blamed->sentence + ", cause " + blamed->cause + "; ";
  if (CountedIncidents(incidents) > std::max(limit, used)) {
    builder->Fail("BackoffLimitExceeded",
                  what + "runPolicy.backoffLimit allows " + Plural(limit, "incident") + ", and " +
                      std::to_string(used) + " happened before");
    return false;
  }
  if (FreeIncidents(incidents) > std::max(kFreeIncidentsMax, free_used)) {
    builder->Fail("BackoffLimitExceeded",
                  what + "a job may restart at most " + std::to_string(free_used) +
                      " times a day for causes that do not count against runPolicy.backoffLimit");
    return false;
  }
  known->incidents = std::move(incidents);
  return true;
}

std::string CostOf(const Failure& failure, const DecisionBuilder& builder) {
  return IsFree(failure)
             ? "does not count against runPolicy.backoffLimit"
             : "incident " + std::to_string(CountedIncidents(builder.status().incidents)) + " of " +
                   std::to_string(builder.spec().run_policy.backoff_limit) + " allowed";
}

void GiveUpGang(DecisionBuilder* builder) {
  GiveUpPlaces(builder->mutable_placement(), builder->mutable_recovery());
}

void GiveUpPlaces(PlacementStatus* gang, RecoveryStatus* recovery) {
  // Programs have seen each relaunch as an attempt: the next one is later than all of these.
  gang->attempt = AttemptOfPrograms(gang->attempt, recovery->relaunch.count).Next();
  recovery->relaunch = Relaunch();
  recovery->epoch = recovery->epoch.Next();
  gang->placement.clear();
  gang->pod_group.clear();
  gang->has_run = false;
}

bool BreaksAgainSoon(const DecisionBuilder& builder) {
  return QuickRestarts(builder) > 1;
}

void CountGangStart(const Failure& origin, DecisionBuilder* builder) {
  FailureStatus* const failures = builder->mutable_failures();
  failures->restarts = WithRestart(std::move(failures->restarts), origin.cause);
  builder->Count(Metric::kRestarts, origin.cause);
  failures->quick_restarts = QuickRestarts(*builder);
}

void RestartGang(const Failure& origin, const std::string& why_new_pods, DecisionBuilder* builder) {
  CountGangStart(origin, builder);
  GiveUpGang(builder);
  std::string message =
      origin.sentence + ", cause " + origin.cause + "; " + CostOf(origin, *builder) +
      (why_new_pods.empty() ? "" : "; the gang gets new pods, because " + why_new_pods);
  const std::chrono::seconds delay = RestartDelay(builder->status().quick_restarts);
  if (delay > std::chrono::seconds(0)) {
    builder->mutable_waiting()->retry_at = builder->now() + delay;
    message += "; next start after " + std::to_string(delay.count()) + " s";
  }
  builder->Set({ConditionType::kRestarting, true, "GangRestart", message}, EventType::kWarning);
  builder->Set({ConditionType::kScheduled, false, "GangRestart", message});
}

bool RestartOnOtherPorts(DecisionBuilder* builder) {
  const std::optional<LostPorts>& lost = builder->observed().lost_ports;
  if (!lost.has_value() || lost->attempt != builder->status().attempt) {
    return false;
  }
  Failure origin;
  origin.cause = ExitCauseName(ExitCause::kPortTaken);
  origin.sentence = lost->sentence;
  origin.is_voluntary = true;
  RestartGang(origin, "", builder);
  return true;
}

void RollBackGang(const std::string& reason,
                  const std::string& sentence,
                  DecisionBuilder* builder) {
  GiveUpGang(builder);
  builder->Count(Metric::kRollbacks, reason);
  builder->HoldBack(reason,
                    "the gang is rolled back: " + sentence,
                    reason == kPodNotCreated || reason == kPodGroupNotMade ? kRefusalDelayMax
                                                                           : kRollbackDelayMax);
}

}  // namespace lockstep::control
