#include "operator/reconcile/act/gang_restart.h"

#include <algorithm>

#include "common/base/check.h"
#include "operator/reconcile/policy/backoff.h"
#include "operator/reconcile/policy/budget.h"

namespace lockstep::control {

const Failure& OriginOf(const std::vector<Failure>& failures, bool is_training) {
  LOCKSTEP_CHECK(!failures.empty(), "the origin of no failure");
  const FailureResponse first = is_training ? FailureResponse::kFailJob : FailureResponse::kRestart;
  const auto precedes = [&](const Failure& a, const Failure& b) {
    if ((a.response == first) != (b.response == first)) {
      return a.response == first;
    }
    return a.ended_at.has_value() && (!b.ended_at.has_value() || *a.ended_at < *b.ended_at);
  };
  return *std::min_element(failures.begin(), failures.end(), precedes);
}

bool RequireBudget(const std::vector<Failure>& failures, DecisionBuilder* builder) {
  TrainingJobStatus trial = builder->status();
  const int64_t limit = builder->spec().run_policy.backoff_limit;
  for (const Failure& failure : failures) {
    if (!HasBudget(trial, limit, failure.cause)) {
      const std::string used = IsCounted(failure.cause)
                                   ? std::to_string(CountedRestarts(trial)) + " of " +
                                         std::to_string(limit) +
                                         " restarts of runPolicy.backoffLimit are used"
                                   : std::to_string(UncountedRestarts(trial)) +
                                         " restarts without a failure are the limit";
      builder->Fail("BackoffLimitExceeded",
                    failure.sentence + ", cause " + failure.cause + "; " + used);
      return false;
    }
    CountRestart(failure.cause, &trial);
  }
  return true;
}

bool HasRun(const TrainingJobStatus& status) {
  if (status.placement.empty()) {
    return false;
  }
  // Running becomes false with the first loss of an attempt that ran, Scheduled true with the start
  // of the next.
  const Condition* const running = FindCondition(status, ConditionType::kRunning);
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  return running != nullptr &&
         (running->is_true ||
          (scheduled != nullptr && running->last_transition >= scheduled->last_transition));
}

void GiveUpGang(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  status->attempt = status->attempt.Next();
  status->epoch = status->epoch.Next();
  status->placement.clear();
}

void RestartGang(const Failure& origin, DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  CountRestart(origin.cause, status);
  builder->Count(Metric::kRestarts, origin.cause);
  GiveUpGang(builder);
  const Condition* const running = FindCondition(*status, ConditionType::kRunning);
  const bool was_steady = running != nullptr && running->is_true &&
                          builder->now() - running->last_transition >= kSteadyAfter;
  status->quick_restarts = was_steady ? 1 : status->quick_restarts + 1;
  std::string message = origin.sentence + ", cause " + origin.cause + "; restart " +
                        std::to_string(CountedRestarts(*status)) + " of " +
                        std::to_string(builder->spec().run_policy.backoff_limit);
  const std::chrono::seconds delay = RestartDelay(status->quick_restarts);
  if (delay > std::chrono::seconds(0)) {
    status->retry_at = builder->now() + delay;
    message += " after " + std::to_string(delay.count()) + " s";
  }
  builder->Set({ConditionType::kRestarting, true, "GangRestart", message}, EventType::kWarning);
  builder->Set({ConditionType::kScheduled, false, "GangRestart", message});
}

void RollBackGang(const std::string& reason,
                  const std::string& sentence,
                  DecisionBuilder* builder) {
  GiveUpGang(builder);
  builder->HoldBack(reason, "gang rolled back: " + sentence);
}

}  // namespace lockstep::control
