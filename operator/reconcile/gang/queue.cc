#include "operator/reconcile/gang/queue.h"

#include <string>
#include <string_view>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/left_over.h"
#include "operator/scheduler/queue/queue_tree.h"

namespace lockstep::control {
namespace {

// Our own name in runPolicy.managedBy; leaving it out means the same.
constexpr std::string_view kManagedByUs = "lockstep.dev/operator";

// Whether the status says in whose name the gang has its places.
bool KeepsShare(const TrainingJobStatus& status) {
  return !status.placement.empty() && !status.origin.queue.empty();
}

}  // namespace

bool IsOurs(const TrainingJob& job) {
  const std::string& manager = job.spec.run_policy.managed_by;
  return manager.empty() || manager == kManagedByUs;
}

std::string PriorityClassOfTemplate(const RoleSpec& role) {
  const Json& raw = *role.pod.raw;
  const auto spec = raw.is_object() ? raw.find("spec") : raw.end();
  if (spec == raw.end() || !spec->is_object()) {
    return "";
  }
  const auto name = spec->find("priorityClassName");
  return name != spec->end() && name->is_string() ? name->get<std::string>() : "";
}

std::string PriorityClassOf(const TrainingJobSpec& spec) {
  if (!spec.scheduling.priority_class_name.empty()) {
    return spec.scheduling.priority_class_name;
  }
  for (const RoleSpec& role : spec.roles) {
    std::string name = PriorityClassOfTemplate(role);
    if (!name.empty()) {
      return name;
    }
  }
  return "";
}

std::string QueueOf(const TrainingJobSpec& spec) {
  return spec.scheduling.queue.empty() ? kDefaultQueue : spec.scheduling.queue;
}

std::string KueueQueueOf(const Metadata& job) {
  const auto found = job.labels.find(kKueueQueueLabel);
  return found == job.labels.end() ? std::string() : found->second;
}

bool AwaitsKueue(const TrainingJob& job) {
  return !job.status.kueue.has_value() && !KueueQueueOf(job.metadata).empty();
}

std::string PriorityClassOf(const TrainingJobSpec& spec, const TrainingJobStatus& status) {
  return KeepsShare(status) ? status.origin.priority_class : PriorityClassOf(spec);
}

std::string QueueOf(const TrainingJobSpec& spec, const TrainingJobStatus& status) {
  return KeepsShare(status) ? status.origin.queue : QueueOf(spec);
}

bool WaitsForPods(const TrainingJobStatus& status) {
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  return scheduled != nullptr && !scheduled->is_true &&
         (scheduled->reason == kReasonPodStuck || scheduled->reason == kReasonNameTaken);
}

bool WaitsForRoom(const TrainingJob& job, WallTime now) {
  return IsOurs(job) && !HasEnded(job.status) && !job.spec.run_policy.suspend &&
         job.status.placement.empty() && !WaitsForPods(job.status) && !AwaitsKueue(job) &&
         (job.status.rollbacks == 0 || !job.status.retry_at.has_value() ||
          *job.status.retry_at <= now);
}

}  // namespace lockstep::control
