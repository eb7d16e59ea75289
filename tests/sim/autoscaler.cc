#include "tests/sim/autoscaler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "operator/kubeclient/kube/capacity_kinds.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Choice: the largest gang takes four nodes, and one may be of no use.
constexpr std::size_t kNodesMax = 6;

// It leaves so many. Choice: two hold what is not made for it, and one may be of no use.
constexpr std::size_t kNodesLeft = 3;

constexpr const char* kConsumed = "autoscaling.x-k8s.io/consume-provisioning-request";
constexpr const char* kCheckClass = "check-capacity.autoscaling.x-k8s.io";
constexpr const char* kAtomicClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
constexpr const char* kNotFoundYet = "Capacity is not found, CA will try to find it later.";

bool Has(const Json& request, const std::string& type, const std::string& status) {
  const Json conditions =
      request.value("status", Json::object()).value("conditions", Json::array());
  return std::any_of(conditions.begin(), conditions.end(), [&](const Json& one) {
    return TextAt(one, "type") == type && TextAt(one, "status") == status;
  });
}

bool IsKept(const Json& request) {
  return Has(request, "Provisioned", "True") && !Has(request, "BookingExpired", "True") &&
         !Has(request, "CapacityRevoked", "True") && !Has(request, "Failed", "True") &&
         !IsDeleting(request);
}

void Take(const Amounts& request, int64_t count, Amounts* room) {
  for (const auto& [name, amount] : request) {
    (*room)[name] -= amount * count;
  }
}

// What a new one has, as Nodes makes it.
Amounts NewNode(int gpus) {
  return {{"cpu", 64'000},
          {"memory", ReadThousandths("256Gi")},
          {"pods", 110'000},
          {"nvidia.com/gpu", gpus * int64_t{1000}}};
}

// The requests that pods say they use: "NAMESPACE/NAME".
std::set<std::string> Consumed(const ObjectStore& store) {
  std::set<std::string> names;
  for (const auto& [key, pod] : store.Of(kube::kPods).objects) {
    const Json annotations = pod->at("metadata").value("annotations", Json::object());
    if (annotations.contains(kConsumed)) {
      names.insert(key.namespace_name + "/" + annotations.at(kConsumed).get<std::string>());
    }
  }
  return names;
}

}  // namespace

Duration Autoscaler::Soon(milliseconds min, milliseconds max) {
  return min + milliseconds(prng()->Below(static_cast<uint64_t>((max - min).count()) + 1));
}

void Autoscaler::Crash(TimePoint back_at) {
  parts_.context->Tell("autoscaler: ends");
  parts_.context->Count("an autoscaler that crashes");
  back_at_ = back_at;
  intents_.clear();
  unused_since_.clear();
}

void Autoscaler::Run() {
  JoinNodes();  // they are the cloud's, and come whoever ordered them
  if (parts_.context->now < back_at_ || prng()->Below(3) != 0) {
    return;
  }
  const auto requests =
      parts_.server->store().Of(kube::kProvisioningRequests).objects;  // a copy: answers are writes
  for (const auto& [key, request] : requests) {
    if (!IsDeleting(*request)) {
      Serve(key, *request);
    }
  }
  RemoveIdle();
}

void Autoscaler::JoinNodes() {
  while (!ordered_.empty() && *ordered_.begin() <= parts_.context->now) {
    ordered_.erase(ordered_.begin());
    const std::string name = "added" + std::to_string(next_node_++);
    parts_.context->Tell("autoscaler: node " + name + " joins");
    parts_.context->Count("a node that an autoscaler adds");
    parts_.nodes->Add(name, gpus_of_node_);
    own_.insert(name);
    parts_.on_added();
  }
}

Autoscaler::Intent Autoscaler::NewIntent(const std::string& name) {
  constexpr std::pair<Mood, const char*> kMoods[] = {
      {Mood::kSlow, "an autoscaler that is slow"},
      {Mood::kSilent, "an autoscaler that is silent"},
      {Mood::kFailing, "an autoscaler that fails a request"},
      {Mood::kRevoking, nullptr},  // is counted when it does
  };
  Intent intent;
  intent.due = parts_.context->now + Soon(milliseconds(0), seconds(2));
  const uint64_t drawn = prng()->Below(2 * std::size(kMoods));
  if (!parts_.context->has_faults || drawn >= std::size(kMoods)) {
    return intent;
  }
  const auto& [mood, counted_as] = kMoods[drawn];
  intent.mood = mood;
  if (counted_as != nullptr) {
    parts_.context->Count(counted_as);
    parts_.context->Tell("autoscaler: " + name + " meets " + counted_as);
  }
  if (mood == Mood::kSlow) {
    intent.due = parts_.context->now + Soon(seconds(10), seconds(40));
  }
  return intent;
}

// In peace it is as it should be.
Autoscaler::Mood Autoscaler::MoodOf(const Intent& intent) const {
  return parts_.context->has_faults ? intent.mood : Mood::kWilling;
}

void Autoscaler::Say(const kube::ObjectKey& key,
                     const std::string& type,
                     bool is_true,
                     const std::string& reason,
                     const std::string& message) {
  const Json condition = {{"type", type},
                          {"status", is_true ? "True" : "False"},
                          {"reason", reason},
                          {"message", message}};
  const bool is_news = parts_.server->Edit(kube::kProvisioningRequests, key, [&](Json* one) {
    Json& conditions = (*one)["status"]["conditions"];
    for (Json& known : conditions) {
      if (known["type"] == type) {
        known = condition;
        return;
      }
    }
    conditions.push_back(condition);
  });
  if (is_news) {
    parts_.context->Tell("autoscaler: " + key.name + ": " + type + " is " +
                         (is_true ? "true" : "false") + ": " + reason);
  }
}

void Autoscaler::Fail(const kube::ObjectKey& key,
                      const std::string& reason,
                      const std::string& message) {
  Say(key, "Failed", true, reason, message);
}

void Autoscaler::Serve(const kube::ObjectKey& key, const Json& request) {
  const std::string provisioning_class = TextAt(request, "spec.provisioningClassName");
  const bool is_served = provisioning_class == kCheckClass || provisioning_class == kAtomicClass;
  if (!is_served || Has(request, "Failed", "True") || Has(request, "BookingExpired", "True") ||
      Has(request, "CapacityRevoked", "True")) {
    return;
  }
  auto found = intents_.find(UidOf(request));
  if (found == intents_.end()) {
    found = intents_.emplace(UidOf(request), NewIntent(key.name)).first;
  }
  Intent* const intent = &found->second;
  if (parts_.context->now < intent->due || MoodOf(*intent) == Mood::kSilent) {
    return;
  }
  if (Has(request, "Provisioned", "True")) {
    EndBooking(key, intent);
  } else if (!Has(request, "Accepted", "True")) {
    Accept(key, MissingTemplate(key, request), intent);
  } else if (const std::string missing = MissingTemplate(key, request); !missing.empty()) {
    Fail(key, "FailedToCreatePods", "podtemplates \"" + missing + "\" not found");
  } else if (MoodOf(*intent) == Mood::kFailing) {
    Fail(key, "FailedToBookCapacity", "Failed to book capacity in the cluster");
  } else if (provisioning_class == kCheckClass) {
    Check(key, request, intent);
  } else {
    ScaleUp(key, request, intent);
  }
}

void Autoscaler::Accept(const kube::ObjectKey& key, const std::string& missing, Intent* intent) {
  if (!missing.empty()) {
    Fail(key, "FailedToCreatePods", "podtemplates \"" + missing + "\" not found");
    return;
  }
  Say(key, "Accepted", true, "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler");
  const bool is_slow = MoodOf(*intent) == Mood::kSlow;
  intent->due = parts_.context->now +
                (is_slow ? Soon(seconds(5), seconds(30)) : Soon(milliseconds(0), seconds(3)));
}

// What was found is kept for as long. One that has crashed meanwhile begins anew.
void Autoscaler::EndBooking(const kube::ObjectKey& key, Intent* intent) {
  if (!intent->is_kept) {
    intent->is_kept = true;
    intent->due = parts_.context->now + Soon(seconds(15), seconds(90));
  } else if (MoodOf(*intent) == Mood::kRevoking) {
    parts_.context->Count("an autoscaler that revokes what it found");
    Say(key, "CapacityRevoked", true, "CapacityRevoked", "a node that it was found on is gone");
  } else {
    parts_.context->Count("a booking that expires");
    Say(key,
        "BookingExpired",
        true,
        "CapacityReservationTimeExpired",
        "Capacity reservation time is expired");
  }
}

void Autoscaler::Find(const kube::ObjectKey& key, const std::string& reason, Intent* intent) {
  Say(key, "Provisioned", true, reason, "Capacity is found in the cluster");
  intent->is_kept = false;
  EndBooking(key, intent);
}

void Autoscaler::Check(const kube::ObjectKey& key, const Json& request, Intent* intent) {
  const auto missing = NodesMissing(PodSetsOf(key, request), FreeRooms(key.name));
  if (missing == std::optional<int64_t>(0)) {
    parts_.context->Count("an autoscaler that finds room");
    Find(key, "CapacityIsFound", intent);
    return;
  }
  parts_.context->Count("an autoscaler that finds no room");
  if (TextAt(request, "spec.parameters.noRetry") == "true") {
    Fail(key, "CapacityIsNotFound", "CA could not find requested capacity");
  } else {
    Say(key, "Provisioned", false, "CapacityIsNotFound", kNotFoundYet);
    intent->due = parts_.context->now + Soon(seconds(10), seconds(30));
  }
}

// Nodes for all, or none.
void Autoscaler::ScaleUp(const kube::ObjectKey& key, const Json& request, Intent* intent) {
  Rooms rooms = FreeRooms(key.name);
  const Amounts fresh = NewNode(gpus_of_node_);
  rooms.insert(rooms.end(), ordered_.size(), fresh);
  const auto missing = NodesMissing(PodSetsOf(key, request), std::move(rooms));
  const std::size_t there = parts_.nodes->names().size() + ordered_.size();
  if (!missing.has_value() || there + static_cast<std::size_t>(*missing) > kNodesMax) {
    Say(key, "Provisioned", false, "CapacityIsNotFound", kNotFoundYet);
    intent->due = parts_.context->now + Soon(seconds(10), seconds(30));
    return;
  }
  if (*missing == 0) {
    parts_.context->Count("an autoscaler that finds room");
    Find(key, "CapacityIsFound", intent);
    return;
  }
  parts_.context->Count("nodes that are added for a whole gang");
  const bool are_lost = parts_.context->has_faults && prng()->Below(2) == 0;
  if (are_lost) {
    parts_.context->Count("nodes that were ordered and never come");
  }
  for (int64_t i = 0; i < *missing && !are_lost; ++i) {
    ordered_.insert(parts_.context->now + Soon(seconds(2), seconds(20)));
  }
  Find(key, "CapacityIsProvisioned", intent);
}

// Empty: all are there.
std::string Autoscaler::MissingTemplate(const kube::ObjectKey& key, const Json& request) const {
  const Json sets = request.at("spec").value("podSets", Json::array());
  for (const Json& set : sets) {
    const std::string name = TextAt(set, "podTemplateRef.name");
    if (parts_.server->store().Get(kube::kPodTemplates, {key.namespace_name, name}) == nullptr) {
      return name;
    }
  }
  return "";
}

std::vector<Autoscaler::PodSet> Autoscaler::PodSetsOf(const kube::ObjectKey& key,
                                                      const Json& request) const {
  std::vector<PodSet> sets;
  const Json stored = request.at("spec").value("podSets", Json::array());
  for (const Json& set : stored) {
    const ObjectPtr pods = parts_.server->store().Get(
        kube::kPodTemplates, {key.namespace_name, TextAt(set, "podTemplateRef.name")});
    if (pods != nullptr) {
      sets.push_back({RequestsOfPod(pods->at("template")), set.value("count", int64_t{1})});
    }
  }
  return sets;
}

// What nodes have left beside pods, and what is kept for other requests whose pods are not there.
Autoscaler::Rooms Autoscaler::FreeRooms(const std::string& but) const {
  const ObjectStore& store = parts_.server->store();
  std::map<std::string, Amounts> by_node;
  for (const auto& [key, node] : store.Of(kube::kNodes).objects) {
    if (IsNodeReady(*node) && !node->at("spec").value("unschedulable", false) &&
        !node->at("spec").contains("taints")) {
      by_node[key.name] = AllocatableOf(*node);
    }
  }
  for (const auto& [key, pod] : store.Of(kube::kPods).objects) {
    const auto node = by_node.find(TextAt(*pod, "spec.nodeName"));
    if (node != by_node.end() && !HasPodEnded(*pod)) {
      Take(RequestsOfPod(*pod), 1, &node->second);
    }
  }
  Rooms rooms;
  for (auto& [name, room] : by_node) {
    rooms.push_back(std::move(room));
  }
  const std::set<std::string> consumed = Consumed(store);
  for (const auto& [key, request] : store.Of(kube::kProvisioningRequests).objects) {
    if (key.name == but || !IsKept(*request) ||
        consumed.contains(key.namespace_name + "/" + key.name)) {
      continue;
    }
    for (PodSet& set : PodSetsOf(key, *request)) {
      for (Amounts& room : rooms) {
        const int64_t count = std::min(set.count, CountThatFits(room, set.request));
        Take(set.request, count, &room);
        set.count -= count;
      }
    }
  }
  return rooms;
}

// How many new nodes the pods take that find no room; null: no node holds such a pod.
std::optional<int64_t> Autoscaler::NodesMissing(const std::vector<PodSet>& sets,
                                                Rooms rooms) const {
  const Amounts fresh = NewNode(gpus_of_node_);
  int64_t nodes = 0;
  for (const PodSet& set : sets) {
    int64_t missing = set.count;
    for (Amounts& room : rooms) {
      const int64_t count = std::min(missing, CountThatFits(room, set.request));
      Take(set.request, count, &room);
      missing -= count;
    }
    while (missing > 0) {
      Amounts room = fresh;
      const int64_t count = std::min(missing, CountThatFits(room, set.request));
      if (count == 0) {
        return std::nullopt;
      }
      Take(set.request, count, &room);
      rooms.push_back(std::move(room));
      missing -= count;
      ++nodes;
    }
  }
  return nodes;
}

bool Autoscaler::IsAnythingKept() const {
  const auto& requests = parts_.server->store().Of(kube::kProvisioningRequests).objects;
  return std::any_of(requests.begin(), requests.end(), [](const auto& request) {
    return IsKept(*request.second);
  });
}

bool Autoscaler::IsUsed(const std::string& node) const {
  const auto& pods = parts_.server->store().Of(kube::kPods).objects;
  return std::any_of(pods.begin(), pods.end(), [&](const auto& pod) {
    return TextAt(*pod.second, "spec.nodeName") == node && !HasPodEnded(*pod.second);
  });
}

// A node that nobody has used for a while takes no pods any more, and goes then.
void Autoscaler::RemoveIdle() {
  const std::vector<std::string> names = parts_.nodes->names();
  const std::set<std::string> there(names.begin(), names.end());
  std::erase_if(own_, [&](const std::string& name) { return !there.contains(name); });
  std::erase_if(unused_since_, [&](const auto& one) { return !own_.contains(one.first); });
  std::erase_if(leaves_at_, [&](const auto& one) { return !own_.contains(one.first); });
  const bool is_anything_kept = IsAnythingKept();
  for (const std::string& name : own_) {
    if (const auto leaves = leaves_at_.find(name); leaves != leaves_at_.end()) {
      if (leaves->second <= parts_.context->now) {
        parts_.context->Count("an unused node that is removed again");
        parts_.on_removal(name);
        parts_.nodes->Remove(name);
        return;  // one at a time
      }
      continue;
    }
    if (is_anything_kept || IsUsed(name)) {
      unused_since_.erase(name);
      continue;
    }
    const auto [since, is_new] = unused_since_.try_emplace(name, parts_.context->now);
    if (parts_.context->now - since->second >= seconds(20) &&
        names.size() - leaves_at_.size() > kNodesLeft) {
      parts_.context->Tell("autoscaler: node " + name + " is unused and goes");
      leaves_at_[name] = parts_.context->now + Soon(seconds(1), seconds(4));
      parts_.server->Edit(kube::kNodes, {"", name}, [](Json* node) {
        (*node)["spec"]["taints"] =
            Json::array({{{"key", "ToBeDeletedByClusterAutoscaler"}, {"effect", "NoSchedule"}}});
      });
    }
  }
}

}  // namespace lockstep::control::sim
