#include "operator/view/capacity/provisioning_view.h"

#include <variant>
#include <vector>

namespace lockstep::control {

namespace {

// By its owner, and by its label: either may have been taken off by somebody.
std::set<JobId> JobsOf(const std::string& namespace_name, const ObjectOrigin& origin) {
  std::set<JobId> jobs;
  for (const std::string* const name : {&origin.owner_job, &origin.label_job}) {
    if (!name->empty()) {
      jobs.insert({namespace_name, *name});
    }
  }
  return jobs;
}

}  // namespace

template <typename T>
std::set<JobId> ObjectsByJob<T>::Apply(const kube::ObjectUpdate<T>& update) {
  std::vector<kube::ObjectKey> doubtful;  // none: replies are not learnt from
  std::set<JobId> jobs;
  cache_.Apply(update, &doubtful, [&](const auto& change) {
    if (change.before != nullptr) {
      for (const JobId& job : JobsOf(change.key.namespace_name, change.before->origin)) {
        jobs.insert(job);
        names_[job].erase(change.key.name);
        if (names_[job].empty()) {
          names_.erase(job);
        }
      }
    }
    if (change.after != nullptr) {
      for (const JobId& job : JobsOf(change.key.namespace_name, change.after->origin)) {
        jobs.insert(job);
        names_[job].insert(change.key.name);
      }
    }
  });
  is_listed_ = is_listed_ || std::holds_alternative<kube::Replaced<T>>(update);
  return jobs;
}

template <typename T>
std::vector<CapacityObject> ObjectsByJob<T>::SightOf(const Metadata& job) const {
  std::vector<CapacityObject> objects;
  const auto names = names_.find({job.namespace_name, job.name});
  if (names == names_.end()) {
    return objects;
  }
  for (const std::string& name : names->second) {
    const auto* const known = cache_.Find({job.namespace_name, name});
    if (known != nullptr) {
      objects.push_back(control::SightOf(name, *known->object, job.uid));
    }
  }
  return objects;
}

template class ObjectsByJob<StoredProvisioningRequest>;
template class ObjectsByJob<StoredPodTemplate>;
template class ObjectsByJob<StoredPlaceholder>;
template class ObjectsByJob<StoredPodGroup>;

}  // namespace lockstep::control
