#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "operator/cmd/pod_group_watch.h"
#include "operator/cmd/work_loop.h"
#include "operator/kubeclient/api_client/reflector_driver.h"

namespace lockstep::control {

// What is followed only where that was asked for.
struct FollowedToo {
  bool kueue = false;
  bool provisioning = false;
  bool placeholders = false;
  bool pod_groups = false;
};

// Everything that the operator follows in the cluster, each kind by a watch of its own, from their
// making until they end.
class Watches {
 public:
  // `namespace_name` is the only one whose jobs are served; empty: there are more. News go to
  // `queue`, which outlives this, as does what `options` points to.
  Watches(const WatchLoopOptions& options,
          const std::string& namespace_name,
          const FollowedToo& too,
          WorkQueueOfUpdates* queue);

  // Whether all has been listed that decisions are made by.
  bool HasSynced() const;

  // PodGroups are served like this; nothing where they are not followed. Thread: any but the
  // transport's, one at a time with HasSynced.
  void FollowPodGroups(const kube::PodGroupsFound& found);

  // Adds, by kind, why it cannot be followed or has not been listed yet; these end before this.
  void AddChecks(std::map<std::string, std::function<Status()>>* checks) const;

 private:
  template <typename T>
  using Watch = std::unique_ptr<ReflectorDriver<T>>;

  Watch<StoredJob> jobs_;
  Watch<kube::Pod> pods_;
  Watch<PodUse> foreign_pods_;
  Watch<kube::Node> nodes_;
  Watch<kube::Service> services_;
  Watch<StoredQueue> queues_;
  Watch<PriorityClass> classes_;
  Watch<StoredWorkload> workloads_;  // null, as are those below, where that is not followed
  Watch<StoredFlavor> flavors_;
  Watch<StoredProvisioningRequest> provisioning_requests_;
  Watch<StoredPodTemplate> pod_templates_;
  Watch<StoredPlaceholder> placeholders_;
  std::unique_ptr<PodGroupWatch> pod_groups_;
};

}  // namespace lockstep::control
