#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Annotations of pods that use what a ProvisioningRequest has found.
// Source: Kubernetes' cluster autoscaler, provisioningrequest/pods/pods.go.
inline constexpr const char* kConsumesRequest = "autoscaling.x-k8s.io/consume-provisioning-request";
inline constexpr const char* kConsumesClass = "autoscaling.x-k8s.io/provisioning-class-name";

// What differs between clusters of images; everything else about them is fixed below.
struct ImageSettings {
  std::string runtime_image;
  std::string runtime_image_pull_policy;  // empty: Kubernetes' default
  std::string cluster_domain;             // empty: left to the pods' search path
  std::string data_directory;             // base of relative data set paths; may be empty
  std::vector<std::string> runtime_image_pull_secrets = {};  // Secrets in each job's namespace
  PodSecurityLevel pod_security = PodSecurityLevel::kBaseline;
};

// Where things are inside a pod of a cluster.
PodSettings SettingsForImages(const ImageSettings& images);

// `pod`, made by BuildPod for `job`, as the complete object for the API server: what the operator
// decides over the role's template as the user wrote it, whose other containers, volumes and fields
// pass through.
//
// What the operator decides: names, labels and owner; the node, by required node affinity or by
// spec.nodeName; the trainer container's command, contract variables and GPUs; restartPolicy Never.
// What it adds: the job's key as a file; the runtime, where the image is not ours; a scratch volume
// for checkpoints and shared memory where the template mounts none.
// What it only fills in: no API token, no service links; in containers of the operator's own image,
// and in all of them where the settings say so, what the `restricted` pod security level asks for
// (RestrictContainer); the secrets with which that image is pulled.
// Containers of a pod that asks for no device see no GPU.
// Precondition (checked): the pod's labels name a role of the job.
Json PodManifest(const TrainingJob& job, const kube::Pod& pod, const PodSettings& settings);

}  // namespace lockstep::control
