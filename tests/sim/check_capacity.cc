#include "tests/sim/check_capacity.h"

#include <chrono>
#include <initializer_list>

#include "operator/kubeclient/kube/capacity_kinds.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kRevision = "lockstep.dev/capacity-revision";
constexpr const char* kConsumes = "autoscaling.x-k8s.io/consume-provisioning-request";
constexpr const char* kAsking = "ProvisioningRequest";

// What nobody asks for any more is gone by then. Choices: as long as a gang may be partly placed,
// which is taken back by the same writes; in peace a leader has looked at all several times.
constexpr Duration kLeftOverMax = minutes(3);
constexpr Duration kLeftOverMaxInPeace = minutes(1);

// A write may have been decided so long before it is carried out: as in check_ends.cc, and a view
// that lags.
constexpr Duration kWriteError = seconds(50) + seconds(15);

// Null where any of the fields is missing.
const Json* FindByPath(const Json& object, std::initializer_list<const char*> path) {
  const Json* found = &object;
  for (const char* const field : path) {
    const auto next = found->find(field);
    if (next == found->end()) {
      return nullptr;
    }
    found = &*next;
  }
  return found;
}

std::string AnnotationOf(const Json& object, const char* name) {
  const Json* const text = FindByPath(object, {"metadata", "annotations", name});
  return text == nullptr ? "" : text->get<std::string>();
}

int64_t CountOf(const Json& job) {
  const Json* const count = FindByPath(job, {"status", "provisioning", "count"});
  return count == nullptr ? 0 : count->get<int64_t>();
}

bool Asks(const Json& job) {
  return FindByPath(job, {"status", "provisioning", "open"}) != nullptr;
}

bool IsTrueAt(const Json& object, std::initializer_list<const char*> path) {
  const Json* const value = FindByPath(object, path);
  return value != nullptr && value->get<bool>();
}

// "job1-uid-12-3" of the third.
std::string NameOfAsk(const Json& job) {
  return TextAt(job, "metadata.name") + "-" + TextAt(job, "metadata.uid").substr(0, 8) + "-" +
         std::to_string(CountOf(job));
}

// What a condition Scheduled that is false says of why; empty: there is none.
std::string WhyItWaits(const Json& job) {
  const Json* const scheduled = WhyUnscheduled(job);
  return scheduled == nullptr ? "" : TextAt(*scheduled, "reason");
}

ObjectPtr JobOf(const ObjectStore& store, const std::string& uid) {
  for (const auto& [key, job] : store.Of(kube::kTrainingJobs).objects) {
    if (UidOf(*job) == uid) {
      return job;
    }
  }
  return nullptr;
}

}  // namespace

void CapacityChecks::OnCreated(const kube::ResourceType& type, const Json& object) {
  const std::string name = TextAt(object, "metadata.name");
  const std::string uid = JobUidOf(object);
  if (type == kube::kPods) {
    const std::string used = AnnotationOf(object, kConsumes);
    const auto made = made_for_.find("provisioningrequests/" + used);
    require_(used.empty() || (made != made_for_.end() && made->second.first == uid),
             name + " says that it uses " + used + ", which was never asked for it");
    return;
  }
  if (type != kube::kPodTemplates && type != kube::kProvisioningRequests) {
    return;
  }
  require_(!uid.empty(), name + " belongs to no job");
  const std::pair<std::string, std::string> made_of = {uid, AnnotationOf(object, kRevision)};
  const auto [known, is_new] =
      made_for_.try_emplace(std::string(type.plural) + "/" + name, made_of);
  require_(is_new || known->second == made_of, "the name " + name + " is used again");
  const ObjectPtr job = JobOf(server_->store(), uid);
  const std::string provisioning =
      job == nullptr ? kAsking : TextAt(*job, "spec.scheduling.provisioning");
  require_(provisioning == kAsking, name + " is made for a job that asks for nothing");
  // Of a job that goes, its templates may have gone before.
  const bool may_be_missing =
      job == nullptr || IsDeleting(*job) || !server_->terminating.empty() ||
      (removed_at_.has_value() && context_->now - *removed_at_ <= kWriteError);
  if (type != kube::kProvisioningRequests || may_be_missing) {
    return;
  }
  const Json sets = object.at("spec").at("podSets");
  require_(!sets.empty(), name + " asks for no pods");
  for (const Json& set : sets) {
    const std::string pods = TextAt(set, "podTemplateRef.name");
    const std::string space = TextAt(object, "metadata.namespace");
    require_(server_->store().Get(kube::kPodTemplates, {space, pods}) != nullptr,
             name + " is made before its template " + pods);
  }
}

void CapacityChecks::OnWrite(const Json& before, const ObjectPtr& after) {
  const bool is_request = FindByPath(before, {"spec", "provisioningClassName"}) != nullptr;
  require_(!is_request || after == nullptr || IsDeleting(*after),
           TextAt(before, "metadata.name") + ": a request was changed");
}

// Who asks waits, for room alone, and for nothing that others decide.
bool CapacityChecks::OnStatusWrite(const Json& before, const Json& after) {
  if (!context_->has_autoscaler) {
    return false;
  }
  const std::string name = TextAt(after, "metadata.name");
  require_(CountOf(before) <= CountOf(after), name + ": the number of its requests decreased");
  if (!Asks(after)) {
    return false;
  }
  require_(!IsTrueAt(after, {"spec", "runPolicy", "suspend"}) &&
               TextAt(after, "status.completionTime").empty(),
           name + ": asks for nodes, and is suspended or has ended");
  const bool has_capacity = IsTrueAt(after, {"status", "provisioning", "open", "hasCapacity"});
  require_(!HasPlaces(after) || has_capacity, name + ": asks for nodes, and has its places");
  const bool is_same = Asks(before) && CountOf(before) == CountOf(after);
  if (is_same) {
    return false;
  }
  context_->Count("a gang that asks for nodes");
  require_(CountOf(after) == CountOf(before) + 1, name + ": asks by a number that was used");
  require_(!HasPlaces(after), name + ": asks for nodes when it has its places");
  require_(WhyItWaits(after) == "Unschedulable",
           name + ": asks for nodes, and waits for something else: " + WhyItWaits(after));
  return true;
}

// Whether the job that it was made for has not asked for it, or not for what it says now. What is
// left of a job that goes is collected by others; pods that have their places by it may use it.
bool CapacityChecks::IsLeftOver(const kube::ObjectKey& key, const Json& object) const {
  const ObjectPtr job = JobOf(server_->store(), JobUidOf(object));
  const bool is_wanted = job != nullptr && Asks(*job) &&
                         (HasPlaces(*job) || !edited_.contains(UidOf(object))) &&
                         (key.name == NameOfAsk(*job) || key.name == NameOfAsk(*job) + "-worker");
  return job != nullptr && !IsDeleting(*job) && !IsDeleting(object) && !IsUnreadable(*job) &&
         !is_wanted;
}

// What is so may be so for a while.
void CapacityChecks::Bound(const std::string& what, bool is_so, const std::string& problem) {
  if (!is_so) {
    since_.erase(what);
    return;
  }
  const bool is_calm =
      !context_->has_faults && context_->now - context_->peace_since > kLeftOverMax;
  const auto [since, is_new] = since_.try_emplace(what, context_->now);
  require_(context_->now - since->second <= (is_calm ? kLeftOverMaxInPeace : kLeftOverMax),
           problem);
}

// So there are never two requests of one job for long, either: one of them is not asked for.
void CapacityChecks::CheckWorld() {
  for (const kube::ResourceType& type : {kube::kPodTemplates, kube::kProvisioningRequests}) {
    for (const auto& [key, object] : server_->store().Of(type).objects) {
      Bound(UidOf(*object), IsLeftOver(key, *object), key.name + " outlives what it was asked for");
    }
  }
}

std::string CapacityChecks::OutOfPlace() const {
  if (!server_->terminating.empty()) {
    return "";  // nothing is made there any more
  }
  for (const kube::ResourceType& type : {kube::kPodTemplates, kube::kProvisioningRequests}) {
    for (const auto& [key, object] : server_->store().Of(type).objects) {
      if (IsLeftOver(key, *object)) {
        return key.name + " is left over";
      }
    }
  }
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    const kube::ObjectKey name{key.namespace_name, NameOfAsk(*job)};
    if (Asks(*job) && !IsDeleting(*job) &&
        server_->store().Get(kube::kProvisioningRequests, name) == nullptr) {
      return key.name + " asks by " + name.name + ", which is not there";
    }
  }
  return "";
}

}  // namespace lockstep::control::sim
