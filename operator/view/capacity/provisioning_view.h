#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/api/job/job_id.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/reflector.h"
#include "operator/view/capacity/provisioning_objects.h"
#include "operator/view/stored/object_cache.h"

namespace lockstep::control {

// Objects of one kind, by the jobs that they say they are of. Those of nobody are kept, too.
template <typename T>
class ObjectsByJob {
 public:
  // Returns the jobs that have to look again, some of which may not be there.
  std::set<JobId> Apply(const kube::ObjectUpdate<T>& update);

  bool is_listed() const { return is_listed_; }

  std::vector<CapacityObject> SightOf(const Metadata& job) const;

 private:
  ObjectCache<T> cache_;
  std::map<JobId, std::set<std::string>> names_;  // no job has none
  bool is_listed_ = false;
};

// What is known of the objects that autoscalers look at, from watches alone: what we write there,
// they tell of.
// Thread: one, the controller's.
class ProvisioningView {
 public:
  std::set<JobId> Apply(const kube::ObjectUpdate<StoredProvisioningRequest>& requests) {
    return requests_.Apply(requests);
  }

  std::set<JobId> Apply(const kube::ObjectUpdate<StoredPodTemplate>& templates) {
    return templates_.Apply(templates);
  }

  std::set<JobId> Apply(const kube::ObjectUpdate<StoredPlaceholder>& placeholders) {
    return placeholders_.Apply(placeholders);
  }

  // Whether all has been listed by which the job asks; false of one that does not.
  bool IsFollowed(Provisioning by) const {
    switch (by) {
      case Provisioning::kNone:
        break;
      case Provisioning::kProvisioningRequest:
        return requests_.is_listed() && templates_.is_listed();
      case Provisioning::kPods:
        return placeholders_.is_listed();
    }
    return false;
  }

  // Of the job; refusals are the caller's to say.
  ProvisioningSight SightOf(const Metadata& job) const {
    return {IsFollowed(Provisioning::kProvisioningRequest),
            requests_.SightOf(job),
            templates_.SightOf(job),
            IsFollowed(Provisioning::kPods),
            placeholders_.SightOf(job),
            {}};
  }

 private:
  ObjectsByJob<StoredProvisioningRequest> requests_;
  ObjectsByJob<StoredPodTemplate> templates_;
  ObjectsByJob<StoredPlaceholder> placeholders_;
};

}  // namespace lockstep::control
