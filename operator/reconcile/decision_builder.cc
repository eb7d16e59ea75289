#include "operator/reconcile/decision_builder.h"

#include <algorithm>

#include "common/base/check.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/job/placement.h"

namespace lockstep::control {

DecisionBuilder::DecisionBuilder(const TrainingJob& job, const Observed& observed, WallTime now)
    : job_(job),
      observed_(observed),
      now_(now),
      topology_(TopologyOf(job, observed.settings.addressing)) {
  decision_.status = job.status;
}

void DecisionBuilder::Set(const ConditionChange& change, EventType type) {
  const Condition* const before = FindCondition(decision_.status, change.type);
  const bool was_so =
      before != nullptr && before->is_true == change.is_true && before->reason == change.reason;
  const bool has_changed = SetCondition(&decision_.status, change, now_);
  if (has_changed && !was_so) {
    Say(type, change.reason, change.message);
  }
}

void DecisionBuilder::Fail(const std::string& reason, const std::string& message) {
  if (HasEnded(decision_.status)) {
    return;
  }
  Set({ConditionType::kFailed, true, reason, message}, EventType::kWarning);
  decision_.status.completion_time = now_;
  decision_.status.preempted_at.reset();
  Count(Metric::kJobsFinished, "failed");
}

void DecisionBuilder::Delete(const kube::Pod& pod,
                             std::chrono::seconds grace,
                             const std::string& reason) {
  // A pod may stay although it was killed: finalizers hold the object. Once is enough.
  const bool was_killed = pod.deletion_grace == std::chrono::seconds(0);
  if (pod.is_deleting && (grace.count() > 0 || was_killed)) {
    return;
  }
  Do(DeletePod{pod.name, pod.uid, grace, reason});
}

void DecisionBuilder::Say(EventType type, const std::string& reason, const std::string& message) {
  const std::vector<Event>& said = decision_.events;
  const bool was_said = std::any_of(said.begin(), said.end(), [&](const Event& event) {
    return event.reason == reason && event.message == message;
  });
  if (!was_said) {
    decision_.events.push_back({type, reason, message});
  }
}

void DecisionBuilder::WakeAt(WallTime when) {
  if (when <= now_) {
    return;
  }
  decision_.next_wakeup = std::min(decision_.next_wakeup.value_or(when), when);
}

void DecisionBuilder::HoldBack(const std::string& reason,
                               const std::string& message,
                               std::chrono::seconds delay_max) {
  WaitingStatus* const waiting = mutable_waiting();
  const std::chrono::seconds delay = RollbackDelay(++waiting->rollbacks, delay_max);
  waiting->retry_at = now_ + delay;
  WakeAt(*waiting->retry_at);
  Set({ConditionType::kScheduled,
       false,
       reason,
       message + "; next try after " + std::to_string(delay.count()) + " s"},
      EventType::kWarning);
}

PodPlacement* DecisionBuilder::PlacementOf(const TaskId& task) {
  PodPlacement* const placement = FindPlacement(&decision_.status, task);
  LOCKSTEP_CHECK(placement != nullptr, "the status has no placement for " + TaskName(task));
  return placement;
}

Decision DecisionBuilder::Take() {
  std::stable_sort(decision_.effects.begin(),
                   decision_.effects.end(),
                   [](const Effect& a, const Effect& b) { return a.index() < b.index(); });
  return std::move(decision_);
}

}  // namespace lockstep::control
