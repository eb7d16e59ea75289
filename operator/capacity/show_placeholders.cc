#include "operator/capacity/show_placeholders.h"

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "operator/capacity/placeholder_pod.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {
namespace {

// Choice: nothing else is decided on a job while its calls are under way, and room may come free
// for it meanwhile; so many are two rounds of calls side by side.
constexpr std::size_t kWritesMax = 64;

struct Placeholder {
  const RoleSpec* role = nullptr;
  int index = 0;
  std::string name;
};

std::vector<Placeholder> PlaceholdersOf(const TrainingJob& job) {
  std::vector<Placeholder> all;
  const int64_t number = job.status.provisioning->count;
  for (const RoleSpec& role : job.spec.roles) {
    for (int index = 0; index < role.replicas; ++index) {
      all.push_back({&role, index, PlaceholderName(job.metadata, number, {role.name, index})});
    }
  }
  return all;
}

}  // namespace

std::set<std::string> PlaceholderNames(const TrainingJob& job) {
  std::set<std::string> names;
  for (Placeholder& one : PlaceholdersOf(job)) {
    names.insert(std::move(one.name));
  }
  return names;
}

std::string WhyPlaceholdersFail(const TrainingJob& job, const ProvisioningSight& sight) {
  const std::set<std::string> wanted = PlaceholderNames(job);
  for (const CapacityObject& object : sight.placeholders) {
    if (wanted.count(object.name) > 0 && !object.is_ours) {
      return "pod " + object.name + " does not belong to this job";
    }
    if (wanted.count(object.name) > 0 && !object.trouble.empty()) {
      return "pod " + object.name + " " + object.trouble;
    }
  }
  for (const auto& [name, words] : sight.refusals) {
    if (wanted.count(name) > 0) {
      return "pod " + name + " was refused: " + words;
    }
  }
  return "";
}

void ShowPlaceholders(const TrainingJob& job, DecisionBuilder* builder) {
  std::map<std::string_view, const CapacityObject*> seen;
  for (const CapacityObject& object : builder->observed().provisioning.placeholders) {
    seen[object.name] = &object;
  }
  std::vector<WriteObject> marks;
  std::vector<WriteObject> creations;
  for (const Placeholder& one : PlaceholdersOf(job)) {
    const auto found = seen.find(one.name);
    if (found == seen.end()) {
      if (marks.size() + creations.size() < kWritesMax) {
        creations.push_back({WriteObject::Kind::kCreate,
                             kube::kPods,
                             one.name,
                             "",
                             DumpJson(PlaceholderManifest(
                                 job, *one.role, one.index, builder->observed().settings))});
      }
      continue;
    }
    const CapacityObject& object = *found->second;
    const bool is_of_ask = object.is_ours && !object.is_deleting &&
                           object.revision == job.status.provisioning->open->revision;
    if (is_of_ask && !IsShown(object.conditions) && marks.size() < kWritesMax) {
      marks.push_back({WriteObject::Kind::kPatch,
                       kube::kPods,
                       object.name,
                       object.uid,
                       DumpJson(PlaceholderPatch(job.metadata, object.uid, builder->now()))});
    }
  }
  for (const auto* const writes : {&marks, &creations}) {
    for (const WriteObject& write : *writes) {
      builder->Do(write);
    }
  }
}

}  // namespace lockstep::control
