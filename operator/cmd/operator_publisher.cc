#include "operator/cmd/operator_publisher.h"

#include <string>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {

// Moments are those of the conditions: they are durable, and the next leader knows them too.
void OperatorPublisher::OnStatus(const TrainingJobStatus& before, const TrainingJob& job) {
  const TrainingJobStatus& after = job.status;
  const Condition* const placed = FindCondition(after, ConditionType::kScheduled);
  const Condition* const running = FindCondition(after, ConditionType::kRunning);
  if (!IsTrue(before, ConditionType::kScheduled) && IsTrue(after, ConditionType::kScheduled)) {
    const Condition* const waiting = FindCondition(before, ConditionType::kScheduled);
    const WallTime since = waiting != nullptr ? waiting->last_transition
                                              : after.start_time.value_or(placed->last_transition);
    const std::string queue = QueueOf(job.spec, job.status);
    metrics_->GangPlaced(queue, placed->last_transition - since);
    if (before.provisioning.has_value() && before.provisioning->open.has_value()) {
      const OpenAsk& open = *before.provisioning->open;
      metrics_->CapacityCame(queue, open.ask_class, placed->last_transition - open.since);
    }
  }
  if (!IsTrue(before, ConditionType::kRunning) && IsTrue(after, ConditionType::kRunning)) {
    if (IsTrue(before, ConditionType::kRestarting)) {
      const Condition* const broken = FindCondition(before, ConditionType::kRestarting);
      const std::string cause = after.incidents.empty() ? "unknown" : after.incidents.back().cause;
      metrics_->GangRecovered(cause, running->last_transition - broken->last_transition);
    } else if (placed != nullptr) {
      metrics_->GangLaunched(running->last_transition - placed->last_transition);
    }
  }
}

void OperatorPublisher::OnEvents(const TrainingJob& job, const std::vector<Event>& events) {
  for (const Event& event : events) {
    logger_->Info(event.message,
                  {{"job", job.metadata.name},
                   {"namespace", job.metadata.namespace_name},
                   {"reason", event.reason}});
    events_->Send({std::string(kApiVersion),
                   std::string(kTrainingJobKind),
                   job.metadata.namespace_name,
                   job.metadata.name,
                   job.metadata.uid},
                  {event.type == EventType::kWarning, event.reason, "Reconcile", event.message});
  }
}

void OperatorPublisher::OnRound(Duration taken) {
  metrics_->RoundDone(taken);
}

void OperatorPublisher::OnMetrics(const std::vector<MetricDelta>& metrics) {
  for (const MetricDelta& delta : metrics) {
    metrics_->Count(delta);
  }
}

}  // namespace lockstep::control
