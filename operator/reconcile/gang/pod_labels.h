#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/contract/topology.h"
#include "operator/api/pod_label_names.h"
#include "operator/kube/objects.h"

namespace lockstep::control {

using Labels = std::map<std::string, std::string>;

struct PodIdentityLabels {
  std::string job;
  std::string job_uid;
  TaskId task;
  std::optional<int> rank;  // of the pod's first process
  PodNumber number;

  friend bool operator==(const PodIdentityLabels&, const PodIdentityLabels&) = default;
};

Labels EncodePodLabels(const PodIdentityLabels& identity);

// nullopt when a label is missing or malformed. Other labels are ignored. Anybody may write labels:
// they tell who a pod is, never whose.
std::optional<PodIdentityLabels> ParsePodLabels(const Labels& labels);

// Who the pod is, of the job that owns it: nullopt unless the job that its labels name is its
// controller. A copy that somebody made of a pod, labels and all, is nobody's.
std::optional<PodIdentityLabels> IdentityOf(const kube::Pod& pod);

}  // namespace lockstep::control
