#include "operator/reconcile/queue.h"

#include <string_view>

#include "operator/api/conditions.h"

namespace lockstep::control {
namespace {

// Our own name in runPolicy.managedBy; leaving it out means the same.
constexpr std::string_view kManagedByUs = "lockstep.dev/operator";

}  // namespace

bool IsOurs(const TrainingJob& job) {
  const std::string& manager = job.spec.run_policy.managed_by;
  return manager.empty() || manager == kManagedByUs;
}

bool WaitsForRoom(const TrainingJob& job, WallTime now) {
  return IsOurs(job) && !HasEnded(job.status) && !job.spec.run_policy.suspend &&
         job.status.placement.empty() &&
         (!job.status.retry_at.has_value() || *job.status.retry_at <= now);
}

}  // namespace lockstep::control
