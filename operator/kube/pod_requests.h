#pragma once

#include "operator/kube/objects.h"

namespace lockstep::control::kube {

// Adds up what a scheduler has to set aside for a pod: enough for all containers and sidecars side
// by side, and for each init container beside the sidecars started before it.
// Source: k8s.io/component-helpers/resource, PodRequests.
class PodRequests {
 public:
  void AddContainer(const ResourceList& requests);

  // In the order in which they run. A sidecar is an init container that stays.
  void AddInitContainer(const ResourceList& requests, bool is_sidecar);

  void AddOverhead(const ResourceList& overhead);

  // Asked for by the pod as a whole: counts instead of what its containers ask for, where it says
  // anything.
  void SetPodLevel(const ResourceList& requests);

  ResourceList Sum() const;

 private:
  ResourceList containers_;
  ResourceList sidecars_;  // started so far
  ResourceList init_max_;
  ResourceList overhead_;
  ResourceList pod_level_;
};

}  // namespace lockstep::control::kube
