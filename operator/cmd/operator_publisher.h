#pragma once

#include "common/base/log.h"
#include "operator/cmd/event_sender.h"
#include "operator/cmd/operator_metrics.h"
#include "operator/controller/write/publisher.h"

namespace lockstep::control {

// Tells people and dashboards: Events, log lines and metrics. Thread: the controller's.
class OperatorPublisher final : public Publisher {
 public:
  // All outlive it.
  OperatorPublisher(EventSender* events, OperatorMetrics* metrics, Logger* logger)
      : events_(events), metrics_(metrics), logger_(logger) {}

  void OnStatus(const TrainingJobStatus& before, const TrainingJob& job) override;
  void OnEvents(const TrainingJob& job, const std::vector<Event>& events) override;
  void OnRound(Duration taken) override;
  void OnMetrics(const std::vector<MetricDelta>& metrics) override;

 private:
  EventSender* events_;
  OperatorMetrics* metrics_;
  Logger* logger_;
};

}  // namespace lockstep::control
