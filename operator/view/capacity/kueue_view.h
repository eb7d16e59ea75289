#pragma once

#include <set>

#include "operator/api/job/job_id.h"
#include "operator/kubeclient/kube/reflector.h"
#include "operator/view/capacity/kueue_objects.h"
#include "operator/view/stored/object_cache.h"

namespace lockstep::control {

// What is known of Kueue, from watches alone: what we write there, they tell of.
// Thread: one, the controller's.
class KueueView {
 public:
  // Each returns the jobs that have to look again, some of which may not be there.
  std::set<JobId> Apply(const kube::ObjectUpdate<StoredWorkload>& workloads);
  std::set<JobId> Apply(const kube::ObjectUpdate<StoredFlavor>& flavors);

  // Whether both kinds have been listed.
  bool is_followed() const { return are_workloads_listed_ && are_flavors_listed_; }

  // Of the job; priority and refusals are the caller's to say.
  KueueSight SightOf(const Metadata& job) const;

 private:
  std::set<JobId> OwnersOfAll() const;

  ObjectCache<StoredWorkload> workloads_;
  ObjectCache<StoredFlavor> flavor_cache_;
  FlavorsByName flavors_;  // of it
  bool are_workloads_listed_ = false;
  bool are_flavors_listed_ = false;
};

}  // namespace lockstep::control
