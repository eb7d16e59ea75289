#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/contract/environment/topology.h"
#include "operator/api/fields/pod_label_names.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"

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

// Who the pod is, of the job that owns it: the job that is its controller and whose pods have such
// names, whatever somebody has written in its labels; without such a name, the one that its labels
// name, if that is its controller. nullopt: it is no job's. A copy that somebody made of a pod,
// labels and all, is nobody's.
std::optional<PodIdentityLabels> IdentityOf(const kube::Pod& pod);

// The labels by which watches and services find the pod, and that it has not, or not any more.
// Empty of a pod without identity.
Labels LackingLabels(const kube::Pod& pod);

// Whether the pod was one of the job's, by name and labels, and has no such owner any more:
// somebody took its ownerReference away. It is a stranger's now, and may run on.
bool IsDisowned(const kube::Pod& pod, const Metadata& job);

}  // namespace lockstep::control
