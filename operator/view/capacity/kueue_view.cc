#include "operator/view/capacity/kueue_view.h"

#include <variant>
#include <vector>

#include "operator/capacity/kueue_workload.h"

namespace lockstep::control {
namespace {

void AddOwner(const kube::ObjectKey& key, const StoredWorkload* workload, std::set<JobId>* jobs) {
  if (workload != nullptr && !workload->origin.owner_job.empty()) {
    jobs->insert({key.namespace_name, workload->origin.owner_job});
  }
}

}  // namespace

std::set<JobId> KueueView::Apply(const kube::ObjectUpdate<StoredWorkload>& workloads) {
  std::vector<kube::ObjectKey> doubtful;  // none: replies are not learnt from
  std::set<JobId> jobs;
  workloads_.Apply(workloads, &doubtful, [&](const auto& change) {
    AddOwner(change.key, change.before.get(), &jobs);
    AddOwner(change.key, change.after.get(), &jobs);
  });
  are_workloads_listed_ =
      are_workloads_listed_ || std::holds_alternative<kube::Replaced<StoredWorkload>>(workloads);
  return jobs;
}

std::set<JobId> KueueView::Apply(const kube::ObjectUpdate<StoredFlavor>& flavors) {
  std::vector<kube::ObjectKey> doubtful;  // none: we never write one
  bool have_changed = false;
  flavor_cache_.Apply(flavors, &doubtful, [&](const auto& change) {
    have_changed = true;
    if (change.after != nullptr) {
      flavors_[change.key.name] = *change.after;
    } else if (change.before != nullptr) {
      flavors_.erase(change.key.name);
    }
  });
  are_flavors_listed_ =
      are_flavors_listed_ || std::holds_alternative<kube::Replaced<StoredFlavor>>(flavors);
  return have_changed ? OwnersOfAll() : std::set<JobId>();
}

KueueSight KueueView::SightOf(const Metadata& job) const {
  KueueSight sight;
  sight.is_followed = is_followed();
  const auto* const known = workloads_.Find({job.namespace_name, WorkloadName(job)});
  if (known != nullptr) {
    sight.workload = control::SightOf(*known->object, job.uid, flavors_);
  }
  return sight;
}

// They are few: flavors change when nodes are bought.
std::set<JobId> KueueView::OwnersOfAll() const {
  std::set<JobId> jobs;
  for (const auto& [key, entry] : workloads_.entries()) {
    AddOwner(key, entry.item.object.get(), &jobs);
  }
  return jobs;
}

}  // namespace lockstep::control
