#include "operator/reconcile/lifecycle/ttl.h"

#include "operator/api/conditions.h"

namespace lockstep::control {

std::optional<WallTime> ExpiryTime(const TrainingJob& job) {
  const auto& ttl = job.spec.run_policy.ttl_after_finished;
  if (!ttl.has_value() || !HasEnded(job.status) || !job.status.completion_time.has_value()) {
    return std::nullopt;
  }
  return *job.status.completion_time + *ttl;
}

}  // namespace lockstep::control
