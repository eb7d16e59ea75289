#include "tests/sim/object_store.h"

#include <cstddef>
#include <utility>

#include "common/base/check.h"
#include "operator/kubeclient/kube/capacity_kinds.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

// Changes kept for each kind. Choice: a slow watcher falls behind now and then.
constexpr std::size_t kHistoryMax = 2000;

std::string NameOf(std::string_view group, std::string_view plural) {
  return std::string(group) + "/" + std::string(plural);
}

}  // namespace

ObjectStore::ObjectStore() {
  const std::pair<kube::ResourceType, const char*> kinds[] = {
      {kube::kPods, "Pod"},
      {kube::kNodes, "Node"},
      {kube::kServices, "Service"},
      {kube::kSecrets, "Secret"},
      {kube::kEvents, "Event"},
      {kube::kResourceQuotas, "ResourceQuota"},
      {kube::kLeases, "Lease"},
      {kube::kTrainingJobs, "TrainingJob"},
      {kube::kTrainingQueues, "TrainingQueue"},
      {kube::kPriorityClasses, "PriorityClass"},
      {kube::kPodTemplates, "PodTemplate"},
      {kube::kProvisioningRequests, "ProvisioningRequest"},
  };
  for (const auto& [type, kind] : kinds) {
    Collection collection;
    collection.type = type;
    collection.kind = kind;
    collection.api_version =
        type.group.empty() ? std::string(type.version) : NameOf(type.group, type.version);
    collections_[NameOf(type.group, type.plural)] = std::move(collection);
  }
}

Collection* ObjectStore::Find(std::string_view group, std::string_view plural) {
  const auto found = collections_.find(NameOf(group, plural));
  return found == collections_.end() ? nullptr : &found->second;
}

Collection& ObjectStore::Of(const kube::ResourceType& type) {
  return collections_.at(NameOf(type.group, type.plural));
}

const Collection& ObjectStore::Of(const kube::ResourceType& type) const {
  return collections_.at(NameOf(type.group, type.plural));
}

std::vector<Collection*> ObjectStore::All() {
  std::vector<Collection*> all;
  for (auto& [name, collection] : collections_) {
    all.push_back(&collection);
  }
  return all;
}

ObjectPtr ObjectStore::Get(const kube::ResourceType& type, const kube::ObjectKey& key) const {
  const Collection& collection = Of(type);
  const auto found = collection.objects.find(key);
  return found == collection.objects.end() ? nullptr : found->second;
}

ObjectPtr ObjectStore::Put(Collection* collection, const kube::ObjectKey& key, Json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  auto stored = std::make_shared<const Json>(std::move(object));
  ObjectPtr& slot = collection->objects[key];
  Change change{version_, key, std::move(slot), stored};
  slot = stored;
  Note(collection, std::move(change));
  return stored;
}

void ObjectStore::Remove(Collection* collection, const kube::ObjectKey& key) {
  const auto found = collection->objects.find(key);
  LOCKSTEP_CHECK(found != collection->objects.end(), "only what is there is removed");
  Change change{++version_, key, std::move(found->second), nullptr};
  collection->objects.erase(found);
  Note(collection, std::move(change));
}

void ObjectStore::Note(Collection* collection, Change change) {
  collection->history.push_back(std::move(change));
  if (collection->history.size() > kHistoryMax) {
    collection->forgotten = collection->history.front().version;
    collection->history.pop_front();
  }
}

std::map<kube::ObjectKey, ObjectPtr> ObjectStore::At(const Collection& collection,
                                                     int64_t version) const {
  LOCKSTEP_CHECK(version >= collection.forgotten, "the history does not reach back so far");
  std::map<kube::ObjectKey, ObjectPtr> objects = collection.objects;
  for (auto change = collection.history.rbegin();
       change != collection.history.rend() && change->version > version;
       ++change) {
    if (change->before == nullptr) {
      objects.erase(change->key);
    } else {
      objects[change->key] = change->before;
    }
  }
  return objects;
}

void ObjectStore::Compact() {
  for (auto& [name, collection] : collections_) {
    collection.history.clear();
    collection.forgotten = version_;
  }
}

std::string UidOf(const Json& object) {
  return TextAt(object, "metadata.uid");
}

bool IsDeleting(const Json& object) {
  return !TextAt(object, "metadata.deletionTimestamp").empty();
}

std::vector<std::string> FinalizersOf(const Json& object) {
  std::vector<std::string> finalizers;
  if (object.at("metadata").contains("finalizers")) {
    for (const Json& one : object.at("metadata").at("finalizers")) {
      finalizers.push_back(one.get<std::string>());
    }
  }
  return finalizers;
}

}  // namespace lockstep::control::sim
