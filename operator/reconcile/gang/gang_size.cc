#include "operator/reconcile/gang/gang_size.h"

#include <algorithm>
#include <set>

#include "common/base/plural.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/job/placement.h"

namespace lockstep::control {

bool HasAskedSize(const TrainingJob& job) {
  const std::vector<TaskId> tasks = AllTasks(TopologyOf(job, DnsAddressing{}));
  std::set<TaskId> placed;
  for (const PodPlacement& placement : job.status.placement) {
    placed.insert(TaskOf(placement));
  }
  return placed == std::set<TaskId>(tasks.begin(), tasks.end());
}

TrainingJob AsPlaced(const TrainingJob& job) {
  TrainingJob placed = job;
  for (RoleSpec& role : placed.spec.roles) {
    role.replicas =
        std::count_if(job.status.placement.begin(),
                      job.status.placement.end(),
                      [&](const PodPlacement& placement) { return placement.role == role.name; });
  }
  return placed;
}

std::string DescribeSize(const TrainingJob& job) {
  std::string text;
  for (const RoleSpec& role : job.spec.roles) {
    const std::string count = role.name == Role::kPs ? std::to_string(role.replicas) + " ps"
                                                     : Plural(role.replicas, RoleName(role.name));
    text += (text.empty() ? "" : " and ") + count;
  }
  return text;
}

}  // namespace lockstep::control
