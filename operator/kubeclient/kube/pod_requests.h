#pragma once

#include "operator/resources/resource_vector.h"

namespace lockstep::control::kube {

// Adds up what a scheduler has to set aside for a pod: enough for all containers and sidecars side
// by side, and for each init container beside the sidecars started before it.
// Source: k8s.io/component-helpers/resource, PodRequests.
class PodRequests {
 public:
  void AddContainer(const ResourceVector& requests);

  // In the order in which they run. A sidecar is an init container that stays.
  void AddInitContainer(const ResourceVector& requests, bool is_sidecar);

  void AddOverhead(const ResourceVector& overhead);

  // Asked for by the pod as a whole: counts instead of what its containers ask for, where it says
  // anything.
  void SetPodLevel(const ResourceVector& requests);

  ResourceVector Sum() const;

 private:
  ResourceVector containers_;
  ResourceVector sidecars_;  // started so far
  ResourceVector init_max_;
  ResourceVector overhead_;
  ResourceVector pod_level_;
};

}  // namespace lockstep::control::kube
