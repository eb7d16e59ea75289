#include "operator/reconcile/stall.h"

#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "operator/api/status/conditions.h"
#include "operator/capacity/ask_capacity.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/lifecycle/evict_gang.h"
#include "operator/reconcile/lifecycle/late_change.h"
#include "operator/reconcile/recovery/gang_restart.h"

namespace lockstep::control {
namespace {

constexpr const char* kReason = "Unreadable";

// Whether nothing was ever made for the job: Created is the first that is said of one that is read.
bool IsUntouched(const TrainingJobStatus& status) {
  return status.unreadable == nullptr && !HasEnded(status) &&
         FindCondition(status, ConditionType::kCreated) == nullptr;
}

// Its own pods are asked to end, as their templates say.
void DeletePods(const TrainingJob& job,
                const Observed& observed,
                const std::string& reason,
                Decision* decision) {
  for (const kube::Pod& pod : observed.pods) {
    if (pod.owner_uid == job.metadata.uid && !pod.is_deleting && !HasEnded(pod)) {
      decision->effects.push_back(DeletePod{pod.name, pod.uid, pod.spec.termination_grace, reason});
    }
  }
}

// The gang goes for another, as one whose manifest is read would.
void Evict(const EvictionOrder& order, WallTime now, Decision* decision) {
  TrainingJobStatus* const status = &decision->status;
  const std::string queue = status->origin.queue;
  GiveUpPlaces(status, status);
  ++status->preemptions;
  status->preempted_at = now;
  const ConditionChange change = {
      ConditionType::kScheduled, false, std::string(kReasonPreempted), DescribeOrder(order)};
  for (const ConditionType activity : {ConditionType::kRunning, ConditionType::kRestarting}) {
    if (IsTrue(*status, activity)) {
      SetCondition(status, {activity, false, change.reason, change.message}, now);
    }
  }
  SetCondition(status, change, now);
  decision->events.push_back({EventType::kWarning, change.reason, change.message});
  decision->metrics.push_back(
      {Metric::kPreemptions, order.is_reclaim ? "borrowed" : "priority", 1, queue, ""});
}

void EndByLimit(const TrainingJob& job,
                const Observed& observed,
                WallTime now,
                Decision* decision) {
  const std::string message =
      DescribeRunTimeLimit(job.spec.run_policy, job.status, observed.run_time_limit);
  SetCondition(&decision->status,
               {ConditionType::kFailed, true, std::string(kReasonDeadlineExceeded), message},
               now);
  decision->status.completion_time = now;
  decision->events.push_back({EventType::kWarning, std::string(kReasonDeadlineExceeded), message});
  decision->metrics.push_back({Metric::kJobsFinished, "failed", 1, "", ""});
}

// What others were promised of a gang with places holds whatever becomes of its manifest: until
// when it runs, and for whom it goes.
void KeepPromises(const TrainingJob& job,
                  const Observed& observed,
                  WallTime now,
                  Decision* decision) {
  if (!HasEnded(job.status) && !job.status.placement.empty()) {
    const std::optional<WallTime> deadline =
        ActiveDeadline(job.spec.run_policy, job.status, observed.run_time_limit);
    if (deadline.has_value() && *deadline <= now) {
      EndByLimit(job, observed, now, decision);
    } else if (observed.eviction.has_value()) {
      Evict(*observed.eviction, now, decision);
    } else {
      decision->next_wakeup = deadline;
    }
  }
  if (MustStalledPodsGo(decision->status)) {
    DeletePods(job,
               observed,
               "the operator cannot read the manifest, and the gang's time limit is over",
               decision);
  }
}

// Nothing is asked of autoscalers for a gang that gets no places: what was asked goes.
void StopAsking(const TrainingJob& job,
                const Observed& observed,
                WallTime now,
                Decision* decision) {
  const TrainingJobStatus& status = decision->status;
  if (!status.placement.empty() && !HasEnded(status)) {
    return;
  }
  TrainingJob decided = job;
  decided.status = status;
  if (decided.status.provisioning.has_value()) {
    decided.status.provisioning->open.reset();
  }
  DecisionBuilder builder(decided, observed, now);
  TellAutoscaler(&builder);
  Decision asks = builder.Take();
  decision->status = std::move(asks.status);
  std::move(asks.effects.begin(), asks.effects.end(), std::back_inserter(decision->effects));
}

}  // namespace

bool MustStalledPodsGo(const TrainingJobStatus& status) {
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  return HasEndedByLimit(status) ||
         (!HasEnded(status) && status.placement.empty() && scheduled != nullptr &&
          !scheduled->is_true && scheduled->reason == kReasonPreempted);
}

Decision StallJob(const TrainingJob& job, const Observed& observed, WallTime now) {
  const std::string& problem = observed.job_problem;
  Decision decision;
  decision.status = job.status;
  const bool is_readable = job.status.unreadable == nullptr;
  if (is_readable && HasEnded(job.status) &&
      job.status.observed_generation != job.metadata.generation) {
    NoteLateChange(&decision.status);
  }
  if (is_readable) {
    decision.status.observed_generation = job.metadata.generation;
    decision.status.queue.reset();  // nobody gives it a place
  }
  if (IsUntouched(job.status) && !observed.is_job_newer) {
    if (IsTrue(job.status, ConditionType::kStalled)) {
      SetCondition(&decision.status, {ConditionType::kStalled, false, "InvalidJob", problem}, now);
    }
    SetCondition(&decision.status, {ConditionType::kFailed, true, "InvalidJob", problem}, now);
    decision.status.completion_time = now;
    decision.events.push_back({EventType::kWarning, "InvalidJob", problem});
    decision.metrics.push_back({Metric::kJobsFinished, "failed", 1});
    return decision;
  }
  const std::string message = "this operator cannot read the job and leaves it alone: " + problem;
  if (SetCondition(&decision.status, {ConditionType::kStalled, true, kReason, message}, now)) {
    decision.events.push_back({EventType::kWarning, kReason, message});
  }
  if (is_readable && !observed.is_job_deleting && IsOurs(job)) {
    KeepPromises(job, observed, now, &decision);
    StopAsking(job, observed, now, &decision);
  }
  return decision;
}

}  // namespace lockstep::control
