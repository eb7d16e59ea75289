#include <algorithm>
#include <vector>

#include "operator/kubeclient/kube/capacity_kinds.h"
#include "tests/sim/api_server.h"

// What the controllers of a cluster remove from the simulated API server: objects whose owner or
// namespace goes.
namespace lockstep::control::sim {
namespace {

// What jobs own.
constexpr kube::ResourceType kOwnedKinds[] = {
    kube::kPods, kube::kServices, kube::kSecrets, kube::kPodTemplates, kube::kProvisioningRequests};

}  // namespace

bool ApiServer::CollectGarbage(WallTime now) {
  if (!terminating.empty() && EmptyNamespace(*terminating.begin(), now)) {
    return true;
  }
  Collection& jobs = store_.Of(kube::kTrainingJobs);
  for (const auto& [key, job] : jobs.objects) {
    if (IsDeleting(*job) && LetGoOfOwner(&jobs, kube::ObjectKey(key), now)) {
      return true;
    }
  }
  for (const kube::ResourceType& type : kOwnedKinds) {
    if (RemoveOrphan(&store_.Of(type), now)) {
      return true;
    }
  }
  return false;
}

// Deletes the next object of a namespace; the last one ends it.
bool ApiServer::EmptyNamespace(const std::string& name, WallTime now) {
  bool is_empty = true;
  for (const kube::ResourceType& type : {kube::kPods,
                                         kube::kServices,
                                         kube::kTrainingJobs,
                                         kube::kSecrets,
                                         kube::kPodTemplates,
                                         kube::kProvisioningRequests}) {
    Collection& collection = store_.Of(type);
    for (const auto& [key, object] : collection.objects) {
      if (key.namespace_name == name && !IsDeleting(*object)) {
        Delete(&collection, kube::ObjectKey(key), Json::object(), now);
        return true;
      }
      is_empty = is_empty && key.namespace_name != name;
    }
  }
  if (is_empty) {
    terminating.erase(name);
  }
  return is_empty;
}

bool ApiServer::LetGoOfOwner(Collection* collection, const kube::ObjectKey& key, WallTime now) {
  const ObjectPtr owner = collection->objects.at(key);
  std::vector<std::string> finalizers = FinalizersOf(*owner);
  const auto foreground = std::find(finalizers.begin(), finalizers.end(), kForegroundFinalizer);
  if (foreground == finalizers.end()) {
    return false;
  }
  bool has_dependents = false;
  for (const kube::ResourceType& type : kOwnedKinds) {
    Collection& dependents = store_.Of(type);
    for (const auto& [name, object] : dependents.objects) {
      const Json references = object->at("metadata").value("ownerReferences", Json::array());
      const bool is_dependent =
          std::any_of(references.begin(), references.end(), [&](const Json& reference) {
            return TextAt(reference, "uid") == UidOf(*owner);
          });
      has_dependents = has_dependents || is_dependent;
      if (is_dependent && !IsDeleting(*object)) {
        Delete(&dependents, kube::ObjectKey(name), Json::object(), now);
        return true;
      }
    }
  }
  if (has_dependents) {
    return false;
  }
  finalizers.erase(foreground);
  if (finalizers.empty()) {
    store_.Remove(collection, key);
    return true;
  }
  Json after = *owner;
  after["metadata"]["finalizers"] = finalizers;
  store_.Put(collection, key, std::move(after));
  return true;
}

bool ApiServer::IsAnyOwnerThere(const Json& object, const std::string& namespace_name) const {
  const auto references = object.at("metadata").find("ownerReferences");
  if (references == object.at("metadata").end() || references->empty()) {
    return true;  // it belongs to nobody
  }
  return std::any_of(references->begin(), references->end(), [&](const Json& reference) {
    const ObjectPtr owner =
        store_.Get(kube::kTrainingJobs, {namespace_name, TextAt(reference, "name")});
    return owner != nullptr && UidOf(*owner) == TextAt(reference, "uid");
  });
}

bool ApiServer::RemoveOrphan(Collection* collection, WallTime now) {
  for (const auto& [key, object] : collection->objects) {
    if (!IsDeleting(*object) && !IsAnyOwnerThere(*object, key.namespace_name)) {
      Delete(collection, kube::ObjectKey(key), Json::object(), now);
      return true;
    }
  }
  return false;
}

}  // namespace lockstep::control::sim
