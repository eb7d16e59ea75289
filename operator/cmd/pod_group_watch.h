#pragma once

#include <memory>
#include <optional>
#include <string>

#include "operator/cmd/work_loop.h"
#include "operator/kubeclient/api_client/reflector_driver.h"
#include "operator/kubeclient/kube/pod_group_search.h"

namespace lockstep::control {

// Follows the PodGroups of jobs in the version in which the API server serves them, and asks it
// again and again which one that is. Findings go to the queue as PodGroupsSeen; whoever takes one
// from there calls Follow with it, so that no other thread waits for a watch to end.
class PodGroupWatch {
 public:
  // As of Watches.
  PodGroupWatch(const WatchLoopOptions& options,
                std::string namespace_name,
                WorkQueueOfUpdates* queue);

  // Follows them in the version that was found, from now on; in none where there is none.
  // Thread: any but the transport's, one at a time with HasAnswer.
  void Follow(const kube::PodGroupsFound& found);

  // Whether it is known what the server serves, and that was listed; or whether the server has
  // failed to tell. Only jobs that are placed natively wait for more.
  bool HasAnswer() const;

 private:
  class Search;

  WatchLoopOptions options_;
  std::string namespace_name_;
  WorkQueueOfUpdates* queue_;
  std::optional<kube::PodGroupsFound> found_;
  std::unique_ptr<ReflectorDriver<StoredPodGroup>> groups_;  // null where there are none
  WatchLoop search_;
};

}  // namespace lockstep::control
