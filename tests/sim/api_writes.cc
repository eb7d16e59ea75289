#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tests/sim/api_server.h"
#include "tests/sim/pod_reader.h"

// Writes of the simulated API server: create, update, patch, apply, delete.
namespace lockstep::control::sim {
namespace {

constexpr const char* kModified =
    "the object has been modified; please apply your changes to the latest version and try again";
constexpr int64_t kGraceDefault = 30;

bool HasStatusSubresource(const Collection& collection) {
  return collection.kind == "Pod" || IsCustomKind(collection) || collection.kind == "Node" ||
         collection.kind == "Service";
}

std::string SecondsText(WallTime when) {
  std::string text = FormatRfc3339(when);
  return text.substr(0, text.find('.')) + "Z";
}

// Requests default to limits, as at admission.
void DefaultPod(Json* pod) {
  Json& spec = (*pod)["spec"];
  for (Json& container : spec["containers"]) {
    if (!container.contains("resources") || !container["resources"].contains("limits")) {
      continue;
    }
    const Json limits = container["resources"]["limits"];  // a copy: writing moves its neighbours
    for (const auto& [name, amount] : limits.items()) {
      if (!container["resources"].contains("requests") ||
          !container["resources"]["requests"].contains(name)) {
        container["resources"]["requests"][name] = amount;
      }
    }
  }
  if (!spec.contains("terminationGracePeriodSeconds")) {
    spec["terminationGracePeriodSeconds"] = kGraceDefault;
  }
  (*pod)["status"] = {{"phase", "Pending"}};
}

std::string Base64(const std::string& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) -> uint32_t {
      return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
    };
    const uint32_t bits = (byte(i) << 16U) | (byte(i + 1) << 8U) | byte(i + 2);
    text += kDigits[bits >> 18U];
    text += kDigits[(bits >> 12U) & 63U];
    text += i + 1 < bytes.size() ? kDigits[(bits >> 6U) & 63U] : '=';
    text += i + 2 < bytes.size() ? kDigits[bits & 63U] : '=';
  }
  return text;
}

// What is written as text is kept as base64.
void EncodeSecret(Json* secret) {
  const Json texts = secret->value("stringData", Json::object());
  for (const auto& [name, text] : texts.items()) {
    (*secret)["data"][name] = Base64(text.get<std::string>());
  }
  secret->erase("stringData");
}

int64_t GpusOf(const Json& pod) {
  return AmountOf(RequestsOfPod(pod), "nvidia.com/gpu") / 1000;
}

bool IsPodWellFormed(const Json& pod) {
  const auto spec = pod.find("spec");
  return spec != pod.end() && spec->contains("containers") && spec->at("containers").is_array() &&
         !spec->at("containers").empty();
}

bool HasGeneration(const Collection& collection) {
  return IsCustomKind(collection) || collection.kind == "Pod" || collection.kind == "PodTemplate";
}

void BumpGeneration(const Collection& collection, Json* object) {
  if (HasGeneration(collection)) {
    Json& generation = (*object)["metadata"]["generation"];
    generation = generation.get<int64_t>() + 1;
  }
}

std::string ConflictsText(const std::vector<std::string>& conflicts) {
  std::string text = "Apply failed with " + std::to_string(conflicts.size()) + " conflict" +
                     (conflicts.size() == 1 ? ": " : "s: ");
  for (const std::string& conflict : conflicts) {
    text += (&conflict == &conflicts.front() ? "" : "\n") + conflict;
  }
  return text;
}

// Why a deletion that expects a certain object is refused; empty: it is that object.
std::string DeletionProblem(const Json& preconditions, const Json& object) {
  for (const auto& [field, name, fate] :
       {std::array{"uid", "UID", "deleted and then recreated"},
        std::array{"resourceVersion", "ResourceVersion", "modified"}}) {
    const std::string expected = TextAt(preconditions, field);
    const std::string actual = TextAt(object, std::string("metadata.") + field);
    if (!expected.empty() && expected != actual) {
      return std::string("the ") + name + " in the precondition (" + expected +
             ") does not match the " + name + " in record (" + actual +
             "). The object might have been " + fate;
    }
  }
  return "";
}

// What is wrong with a write of another object of that name.
std::string UidProblem(const Collection& collection,
                       const kube::ObjectKey& key,
                       const std::string& expected,
                       const std::string& actual) {
  return "StorageError: invalid object, Code: 4, Key: /registry/" +
         std::string(collection.type.group) + "/" + std::string(collection.type.plural) + "/" +
         key.namespace_name + "/" + key.name +
         ", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: " +
         expected + ", UID in object meta: " + actual;
}

}  // namespace

Quota ApiServer::UsedOf(const std::string& namespace_name) const {
  Quota used{0, 0, 0};
  for (const auto& [key, pod] : store_.Of(kube::kPods).objects) {
    if (key.namespace_name == namespace_name) {
      ++*used.objects_max;
      used.pods_max += HasPodEnded(*pod) ? 0 : 1;
      used.gpus_max += HasPodEnded(*pod) ? 0 : GpusOf(*pod);
    }
  }
  return used;
}

// The ResourceQuota as people read it: what it allows, and what is used of that.
Json ApiServer::WithUse(const Json& quota) const {
  const std::string space = TextAt(quota, "metadata.namespace");
  const auto found = quotas.find(space);
  if (found == quotas.end()) {
    return quota;
  }
  const auto amounts = [](const Quota& one) {
    Json json = {{"pods", std::to_string(one.pods_max)},
                 {"requests.nvidia.com/gpu", std::to_string(one.gpus_max)}};
    if (one.objects_max.has_value()) {
      json["count/pods"] = std::to_string(*one.objects_max);
    }
    return json;
  };
  Quota used = UsedOf(space);
  used.objects_max = found->second.objects_max.has_value() ? used.objects_max : std::nullopt;
  Json object = quota;
  object["spec"]["hard"] = amounts(found->second);
  object["status"] = {{"hard", amounts(found->second)}, {"used", amounts(used)}};
  return object;
}

std::optional<std::string> ApiServer::QuotaProblem(const Json& pod,
                                                   const std::string& namespace_name) const {
  const auto quota = quotas.find(namespace_name);
  if (quota == quotas.end()) {
    return std::nullopt;
  }
  const Quota used = UsedOf(namespace_name);
  const int64_t pods = used.pods_max + 1;
  const int64_t gpus = used.gpus_max + GpusOf(pod);
  const std::optional<int64_t>& objects_max = quota->second.objects_max;
  if (objects_max.has_value() && *used.objects_max + 1 > *objects_max) {
    return "exceeded quota: team, requested: count/pods=1, used: count/pods=" +
           std::to_string(*used.objects_max) +
           ", limited: count/pods=" + std::to_string(*objects_max);
  }
  if (pods <= quota->second.pods_max && gpus <= quota->second.gpus_max) {
    return std::nullopt;
  }
  return "exceeded quota: team, requested: pods=1, used: pods=" + std::to_string(pods - 1) +
         ", limited: pods=" + std::to_string(quota->second.pods_max);
}

kube::Reply ApiServer::Create(const Route& route, Json body, WallTime now) {
  Collection& collection = *route.collection;
  kube::ObjectKey key = route.key;
  key.name = TextAt(body, "metadata.name");
  if (key.name.empty()) {
    return StatusReply(422, "Invalid", "metadata.name: Required value: name is required");
  }
  if (terminating.count(key.namespace_name) > 0) {
    return ForbiddenReply(collection,
                          key.name,
                          "unable to create new content in namespace " + key.namespace_name +
                              " because it is being terminated");
  }
  if (collection.kind == "Pod" && !IsPodWellFormed(body)) {
    return InvalidReply(collection, key.name, "spec.containers: Required value");
  }
  if (const auto found = collection.objects.find(key); found != collection.objects.end()) {
    return AlreadyExistsReply(collection, *found->second);
  }
  if (collection.kind == "Pod") {
    DefaultPod(&body);
    ApplyLimitRange(key.namespace_name, &body);
    if (auto refusal = WebhookRefusal(body)) {
      return *std::move(refusal);
    }
    if (const auto problem = QuotaProblem(body, key.namespace_name)) {
      return ForbiddenReply(collection, key.name, *problem);
    }
  } else if (HasStatusSubresource(collection)) {
    body.erase("status");
  }
  if (collection.kind == "Secret") {
    EncodeSecret(&body);
  }
  body.erase("kind");
  body.erase("apiVersion");
  Json& metadata = body["metadata"];
  if (collection.type.is_namespaced) {
    metadata["namespace"] = key.namespace_name;
  }
  if (route.Parameter("dryRun") == "All") {
    return ObjectReply(201, collection, body);
  }
  metadata["uid"] = "uid-" + std::to_string(++uids_);
  metadata["creationTimestamp"] = SecondsText(now);
  if (HasGeneration(collection)) {
    metadata["generation"] = 1;
  }
  return ObjectReply(201, collection, *store_.Put(&collection, key, std::move(body)));
}

kube::Reply ApiServer::Update(const Route& route, Json body, WallTime now) {
  const auto found = route.collection->objects.find(route.key);
  if (found == route.collection->objects.end()) {
    return NotFoundReply(*route.collection, route.key.name);
  }
  const ObjectPtr before = found->second;
  const std::string version = TextAt(body, "metadata.resourceVersion");
  if (version.empty() && route.collection->kind == "TrainingJob") {
    return InvalidReply(*route.collection,
                        route.key.name,
                        "metadata.resourceVersion: Invalid value: 0: must be specified for an "
                        "update");
  }
  if (const std::string uid = TextAt(body, "metadata.uid"); !uid.empty() && uid != UidOf(*before)) {
    return ConflictReply(QualifiedName(*route.collection),
                         route.key.name,
                         UidProblem(*route.collection, route.key, uid, UidOf(*before)));
  }
  if (!version.empty() && version != TextAt(*before, "metadata.resourceVersion")) {
    return ConflictReply(QualifiedName(*route.collection), route.key.name, kModified);
  }
  Json after = *before;
  if (route.subresource == "status") {
    after["status"] = body.contains("status") ? body["status"] : Json::object();
    return Replace(route, before, std::move(after), now);
  }
  for (const auto& [name, value] : body.items()) {
    const bool is_fixed = name == "metadata" || name == "kind" || name == "apiVersion" ||
                          (name == "status" && HasStatusSubresource(*route.collection));
    if (!is_fixed) {
      after[name] = value;
    }
  }
  for (const char* field : {"labels", "annotations", "finalizers", "ownerReferences"}) {
    after["metadata"].erase(field);
    if (body["metadata"].contains(field)) {
      after["metadata"][field] = body["metadata"][field];
    }
  }
  return Replace(route, before, std::move(after), now);
}

kube::Reply ApiServer::Patch(const Route& route, const Json& body, WallTime now) {
  const auto found = route.collection->objects.find(route.key);
  if (found == route.collection->objects.end()) {
    return NotFoundReply(*route.collection, route.key.name);
  }
  const ObjectPtr before = found->second;
  const std::string version = TextAt(body, "metadata.resourceVersion");
  if (!version.empty() && version != TextAt(*before, "metadata.resourceVersion")) {
    return ConflictReply(QualifiedName(*route.collection), route.key.name, kModified);
  }
  Json after = *before;
  if (route.subresource == "status") {
    after["status"].merge_patch(body.value("status", Json::object()));
  } else {
    const Json status = after.value("status", Json());
    after.merge_patch(body);
    if (HasStatusSubresource(*route.collection)) {
      after["status"] = status;
    }
    after.erase("kind");
    after.erase("apiVersion");
  }
  if (after.contains("status") && after["status"].is_null()) {
    after.erase("status");
  }
  return Replace(route, before, std::move(after), now);
}

kube::Reply ApiServer::Apply(const Route& route, const Json& body, WallTime now) {
  const std::string& manager = route.Parameter("fieldManager");
  if (manager.empty()) {
    return StatusReply(422,
                       "Invalid",
                       "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is "
                       "required for apply patch");
  }
  Json wanted = body;
  wanted.erase("kind");
  wanted.erase("apiVersion");
  const std::string uid = TextAt(body, "metadata.uid");
  const auto found = route.collection->objects.find(route.key);
  if (found == route.collection->objects.end() && !uid.empty()) {
    return ConflictReply(QualifiedName(*route.collection),
                         route.key.name,
                         "uid mismatch: the provided object specified uid " + uid +
                             ", and no existing object was found");
  }
  if (found == route.collection->objects.end()) {
    Route collection = route;
    collection.key.name.clear();
    kube::Reply created = Create(collection, body, now);
    if (created.is_success()) {
      const ObjectPtr stored = store_.Get(route.collection->type, route.key);
      owners_[UidOf(*stored)].Apply(manager, wanted, *stored);
    }
    return created;
  }
  const ObjectPtr before = found->second;
  if (!uid.empty() && uid != UidOf(*before)) {
    return InvalidReply(*route.collection,
                        route.key.name,
                        "metadata.uid: Invalid value: \"" + uid + "\": field is immutable");
  }
  FieldOwners& owners = owners_[UidOf(*before)];
  const std::vector<std::string> conflicts = owners.Conflicts(manager, wanted, *before);
  if (!conflicts.empty() && route.Parameter("force") != "true") {
    return StatusReply(409, "Conflict", ConflictsText(conflicts));
  }
  return Replace(route, before, owners.Apply(manager, wanted, *before), now);
}

// Stores what a write came to: nothing, when nothing has changed; a removal, when the last
// finalizer went.
kube::Reply ApiServer::Replace(const Route& route,
                               const ObjectPtr& before,
                               Json after,
                               WallTime /*now*/) {
  Collection& collection = *route.collection;
  if (after == *before) {
    return ObjectReply(200, collection, *before);
  }
  const bool had_finalizers = !FinalizersOf(*before).empty();
  const bool waits_for_kubelet =
      collection.kind == "Pod" &&
      after["metadata"].value("deletionGracePeriodSeconds", int64_t{0}) > 0;
  if (IsDeleting(after) && had_finalizers && FinalizersOf(after).empty() && !waits_for_kubelet) {
    store_.Remove(&collection, route.key);
    return ObjectReply(200, collection, after);
  }
  const bool is_other = after.value("spec", Json()) != before->value("spec", Json()) ||
                        after.value("template", Json()) != before->value("template", Json());
  if (is_other) {
    BumpGeneration(collection, &after);
  }
  return ObjectReply(200, collection, *store_.Put(&collection, route.key, std::move(after)));
}

kube::Reply ApiServer::Delete(Collection* collection,
                              const kube::ObjectKey& key,
                              const Json& options,
                              WallTime now) {
  const auto found = collection->objects.find(key);
  if (found == collection->objects.end()) {
    return NotFoundReply(*collection, key.name);
  }
  const ObjectPtr before = found->second;
  const Json preconditions = options.value("preconditions", Json::object());
  if (const std::string problem = DeletionProblem(preconditions, *before); !problem.empty()) {
    return ConflictReply(QualifiedKind(*collection), key.name, problem);
  }
  int64_t grace = 0;
  const bool is_pod = collection->kind == "Pod";
  if (is_pod && !HasPodEnded(*before) && !TextAt(*before, "spec.nodeName").empty()) {
    grace = options.value("gracePeriodSeconds",
                          before->at("spec").value("terminationGracePeriodSeconds", kGraceDefault));
  }
  std::vector<std::string> finalizers = FinalizersOf(*before);
  if (TextAt(options, "propagationPolicy") == "Foreground" &&
      std::find(finalizers.begin(), finalizers.end(), kForegroundFinalizer) == finalizers.end()) {
    finalizers.emplace_back(kForegroundFinalizer);
  }
  Json after = *before;
  Json& metadata = after["metadata"];
  if (!IsDeleting(*before)) {
    BumpGeneration(*collection, &after);
  }
  if (!IsDeleting(*before) || grace < metadata.value("deletionGracePeriodSeconds", int64_t{0})) {
    metadata["deletionTimestamp"] = SecondsText(now + std::chrono::seconds(grace));
    metadata["deletionGracePeriodSeconds"] = grace;
  }
  if (!finalizers.empty()) {
    metadata["finalizers"] = finalizers;
  }
  const bool is_over = grace == 0 && finalizers.empty();
  if (after != *before && (is_pod || !is_over)) {
    after = *store_.Put(collection, key, std::move(after));  // a pod's end is announced, always
  }
  if (!is_over) {
    return ObjectReply(200, *collection, after);
  }
  store_.Remove(collection, key);
  if (!is_pod && collection->kind != "Service") {
    return StatusReply(200, "", "");
  }
  Json last = is_pod ? std::move(after) : *before;
  last["metadata"]["resourceVersion"] = std::to_string(store_.version());
  return ObjectReply(200, *collection, last);
}

}  // namespace lockstep::control::sim
