#include "operator/reconcile/policy/clock_skew.h"

#include <algorithm>

#include "operator/reconcile/policy/backoff.h"

namespace lockstep::control {
namespace {

void Clamp(std::optional<WallTime>* moment, WallTime latest) {
  if (moment->has_value()) {
    *moment = std::min(**moment, latest);
  }
}

}  // namespace

TrainingJobStatus WithoutFuture(TrainingJobStatus status, WallTime now) {
  for (Condition& condition : status.conditions) {
    condition.last_transition = std::min(condition.last_transition, now);
  }
  for (PodPlacement& placement : status.placement) {
    placement.since = std::min(placement.since, now);
  }
  for (Incident& incident : status.incidents) {
    incident.at = std::min(incident.at, now);
  }
  if (status.progress.has_value()) {
    status.progress->observed_at = std::min(status.progress->observed_at, now);
  }
  Clamp(&status.start_time, now);
  Clamp(&status.completion_time, now);
  Clamp(&status.retry_at, now + kRollbackDelayMax);
  return status;
}

}  // namespace lockstep::control
