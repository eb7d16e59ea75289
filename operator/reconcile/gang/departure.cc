#include "operator/reconcile/gang/departure.h"

#include "common/contract/status/termination_message.h"

namespace lockstep::control {
namespace {

bool Says(const kube::Pod& pod, Outcome outcome) {
  if (!pod.status.termination.has_value()) {
    return false;
  }
  const auto words = DecodeTerminationMessage(pod.status.termination->message);
  return words.ok() && words->outcome == outcome;
}

}  // namespace

bool WasAskedToGo(const kube::Pod& pod) {
  return pod.is_deleting || !pod.status.disruption.empty();
}

bool HasDoneItsWork(const kube::Pod& pod) {
  return pod.status.phase == kube::PodPhase::kSucceeded && !SaysItObeyed(pod) &&
         (!WasAskedToGo(pod) || Says(pod, Outcome::kSuccess));
}

bool SaysItIsDone(const kube::Pod& pod) {
  return pod.status.phase == kube::PodPhase::kSucceeded && Says(pod, Outcome::kSuccess);
}

bool SaysItObeyed(const kube::Pod& pod) {
  return Says(pod, Outcome::kPreempted);
}

bool HasEndedEarly(const kube::Pod& pod, const StatusDocument& last) {
  return pod.status.phase == kube::PodPhase::kSucceeded && !Says(pod, Outcome::kSuccess) &&
         last.phase != Phase::kSucceeded && last.steps_total.has_value() &&
         last.step.value() < *last.steps_total;
}

bool HasEndedEarly(const kube::Pod& pod, const JobProgress& last) {
  return pod.status.phase == kube::PodPhase::kSucceeded && !Says(pod, Outcome::kSuccess) &&
         last.step < last.steps_total;
}

bool HasFailedForGood(const kube::Pod& pod) {
  return Says(pod, Outcome::kPermanent);
}

std::optional<WallTime> OverdueAt(const kube::Pod& pod) {
  const bool has_ended =
      pod.status.phase == kube::PodPhase::kSucceeded || pod.status.phase == kube::PodPhase::kFailed;
  if (!pod.is_deleting || has_ended || !pod.deletion_due.has_value()) {
    return std::nullopt;
  }
  return *pod.deletion_due + kOverdueAfter;
}

bool IsOverdue(const kube::Pod& pod, WallTime now) {
  const std::optional<WallTime> at = OverdueAt(pod);
  return at.has_value() && *at <= now;
}

}  // namespace lockstep::control
