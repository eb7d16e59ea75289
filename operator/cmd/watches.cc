#include "operator/cmd/watches.h"

#include <chrono>
#include <utility>

#include "common/base/digest.h"
#include "operator/capacity/placeholder_pod.h"
#include "operator/kubeclient/kube/capacity_kinds.h"

namespace lockstep::control {
namespace {

// Choice: there may be many of them, and the room that one leaves is looked at 20 ms later anyway.
constexpr Duration kForeignReadInterval = std::chrono::milliseconds(50);

kube::Selection OursIn(const kube::ResourceType& type, const std::string& namespace_name) {
  return {type, namespace_name, "lockstep.dev/job", ""};
}

kube::Selection PodsOfOthers() {
  return {kube::kPods,
          "",
          "!lockstep.dev/job",
          "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"};
}

template <typename T>
std::unique_ptr<ReflectorDriver<T>> Follow(kube::Selection selection,
                                           typename kube::Reflector<T>::Decode decode,
                                           const WatchLoopOptions& options,
                                           WorkQueueOfUpdates* queue) {
  kube::ReflectorOptions reflector;
  reflector.selection = std::move(selection);
  const uint64_t seed = std::hash<std::string>()(RandomHex(8));
  return std::make_unique<ReflectorDriver<T>>(
      options, std::move(reflector), decode, seed, ReflectorDriver<T>::Into(queue));
}

template <typename T>
Status CheckOf(const std::string& name, const ReflectorDriver<T>& driver) {
  if (std::string refusal = driver.refusal(); !refusal.empty()) {
    return Error(ErrorCode::kUnavailable, std::move(refusal));
  }
  return driver.has_synced()
             ? OkStatus()
             : Status(Error(ErrorCode::kUnavailable, "no list of " + name + " was received yet"));
}

}  // namespace

Watches::Watches(const WatchLoopOptions& options,
                 const std::string& namespace_name,
                 const FollowedToo& too,
                 WorkQueueOfUpdates* queue)
    : jobs_(Follow<StoredJob>(
          {kube::kTrainingJobs, namespace_name, "", ""}, DecodeStoredJob, options, queue)),
      pods_(Follow<kube::Pod>(OursIn(kube::kPods, ""), kube::DecodePod, options, queue)) {
  WatchLoopOptions now_and_then = options;
  now_and_then.read_interval = kForeignReadInterval;
  foreign_pods_ = Follow<PodUse>(PodsOfOthers(), DecodePodUse, now_and_then, queue);
  nodes_ = Follow<kube::Node>({kube::kNodes, "", "", ""}, kube::DecodeNode, options, queue);
  services_ = Follow<kube::Service>(
      OursIn(kube::kServices, namespace_name), kube::DecodeService, options, queue);
  queues_ =
      Follow<StoredQueue>({kube::kTrainingQueues, "", "", ""}, DecodeStoredQueue, options, queue);
  classes_ = Follow<PriorityClass>(
      {kube::kPriorityClasses, "", "", ""}, DecodePriorityClass, options, queue);
  if (too.kueue) {
    workloads_ = Follow<StoredWorkload>(
        OursIn(kube::kWorkloads, namespace_name), DecodeWorkload, options, queue);
    flavors_ =
        Follow<StoredFlavor>({kube::kResourceFlavors, "", "", ""}, DecodeFlavor, options, queue);
  }
  // All of them, whatever their labels: there are few, and whose label somebody takes off would be
  // made a second time, and the first would be left over.
  if (too.provisioning) {
    provisioning_requests_ =
        Follow<StoredProvisioningRequest>({kube::kProvisioningRequests, namespace_name, "", ""},
                                          DecodeProvisioningRequest,
                                          options,
                                          queue);
    pod_templates_ = Follow<StoredPodTemplate>(
        {kube::kPodTemplates, namespace_name, "", ""}, DecodePodTemplateObject, options, queue);
  }
  if (too.placeholders) {
    placeholders_ = Follow<StoredPlaceholder>(
        SelectPlaceholders(namespace_name), DecodePlaceholder, options, queue);
  }
  if (too.pod_groups) {
    pod_groups_ = std::make_unique<PodGroupWatch>(options, namespace_name, queue);
  }
}

bool Watches::HasSynced() const {
  // A cluster that does not know the kind, as of an earlier release, has none of it. Who is not
  // allowed to read its queues would start jobs beyond their quota.
  const bool are_queues_known = queues_->has_synced() || queues_->is_kind_unknown();
  // Jobs with Kueue's label wait while it is not seen, and the others need nothing of it.
  const auto is_answered = [](const auto& driver) {
    return driver == nullptr || driver->has_synced() || !driver->refusal().empty();
  };
  return jobs_->has_synced() && pods_->has_synced() && foreign_pods_->has_synced() &&
         nodes_->has_synced() && services_->has_synced() && classes_->has_synced() &&
         are_queues_known && is_answered(workloads_) && is_answered(flavors_) &&
         is_answered(provisioning_requests_) && is_answered(pod_templates_) &&
         is_answered(placeholders_) && (pod_groups_ == nullptr || pod_groups_->HasAnswer());
}

void Watches::FollowPodGroups(const kube::PodGroupsFound& found) {
  if (pod_groups_ != nullptr) {
    pod_groups_->Follow(found);
  }
}

void Watches::AddChecks(std::map<std::string, std::function<Status()>>* checks) const {
  const auto add = [checks](const std::string& name, const auto& driver) {
    (*checks)[name] = [name, watched = driver.get()] { return CheckOf(name, *watched); };
  };
  add("trainingjobs", jobs_);
  add("pods", pods_);
  add("foreign-pods", foreign_pods_);
  add("nodes", nodes_);
  add("services", services_);
  add("trainingqueues", queues_);
  add("priorityclasses", classes_);
}

}  // namespace lockstep::control
