#include "operator/reconcile/lifecycle/clock_skew.h"

#include <algorithm>

#include "operator/reconcile/backoff.h"
#include "operator/reconcile/gang/suspect_nodes.h"

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
    Clamp(&placement.trouble_since, now);
  }
  for (SuspectNode& suspect : status.suspect_nodes) {
    suspect.until = std::min<WallTime>(suspect.until, now + kSuspicionMax);
  }
  for (Incident& incident : status.incidents) {
    incident.at = std::min(incident.at, now);
  }
  if (status.progress.has_value()) {
    status.progress->observed_at = std::min(status.progress->observed_at, now);
    Clamp(&status.progress->checkpoint_at, now);
  }
  if (status.claim.has_value()) {
    status.claim->since = std::min(status.claim->since, now);
  }
  Clamp(&status.relaunch.since, now);
  status.relaunch.told_at = std::min(status.relaunch.told_at, now);
  if (status.provisioning.has_value()) {
    Clamp(&status.provisioning->retry_at, now + kRollbackDelayMax);
    if (status.provisioning->open.has_value()) {
      status.provisioning->open->since = std::min(status.provisioning->open->since, now);
      Clamp(&status.provisioning->open->answered_at, now);
    }
  }
  Clamp(&status.waiting_since, now);
  Clamp(&status.start_time, now);
  Clamp(&status.preempted_at, now);
  Clamp(&status.completion_time, now);
  Clamp(&status.retry_at, now + kRollbackDelayMax);
  return status;
}

}  // namespace lockstep::control
