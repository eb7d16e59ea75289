#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/contract/topology.h"
#include "operator/api/pod_label_names.h"

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

// nullopt when a label is missing or malformed: the pod is then not one of ours. Other labels are
// ignored.
std::optional<PodIdentityLabels> ParsePodLabels(const Labels& labels);

}  // namespace lockstep::control
