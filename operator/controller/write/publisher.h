#pragma once

#include <vector>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision.h"

namespace lockstep::control {

// Lets out what has happened, once it is durable: for people and for dashboards. Never blocks.
// Two implementations: Events and metrics, and what a test keeps.
class Publisher {
 public:
  virtual ~Publisher() = default;

  // `job.status` has just replaced `before`.
  virtual void OnStatus(const TrainingJobStatus& before, const TrainingJob& job) = 0;

  virtual void OnEvents(const TrainingJob& job, const std::vector<Event>& events) = 0;
  // A round of scheduling took so long.
  virtual void OnRound(Duration taken) = 0;

  virtual void OnMetrics(const std::vector<MetricDelta>& metrics) = 0;
};

}  // namespace lockstep::control
