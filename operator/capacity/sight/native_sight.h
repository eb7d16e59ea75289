#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/capacity/sight/provisioning_sight.h"
#include "operator/kubeclient/kube/pod_group_search.h"

namespace lockstep::control {

// What is seen of the PodGroups by which kube-scheduler places a job's gangs.
struct NativeSight {
  bool is_enabled = false;   // the operator was told to look after them
  bool is_followed = false;  // they have been listed, in the version that `served` names
  std::vector<CapacityObject> groups;
  // Why the server did not take what was written last, by the object's name.
  std::map<std::string, std::string> refusals;
  kube::PodGroupsFound served{};  // in which version there are any

  friend bool operator==(const NativeSight&, const NativeSight&) = default;
};

}  // namespace lockstep::control
