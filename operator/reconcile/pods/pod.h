#pragma once

#include "common/base/result.h"
#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Keeps a pod that asked for no device from seeing all of them where the image says "all".
inline constexpr const char* kNvidiaVisibleDevices = "NVIDIA_VISIBLE_DEVICES";

// The folder for checkpoints of a command, below the job's.
inline constexpr const char* kCommandCheckpoints = "checkpoints";

// Whether our runtime is the pod's first process: as the trainer, or in front of a command.
bool IsSupervised(const TrainingJob& job, const RoleSpec& role);

// Whether the runtime has to be put into the image that the role names.
bool NeedsInstall(const TrainingJob& job, const RoleSpec& role, const PodSettings& settings);

// Whether BuildPod gives the variable its value: a field of the pod that it knows itself.
bool IsKnownWithoutCluster(const EnvironmentSource& source);

// Where a pod of the built-in trainer keeps its checkpoints. Precondition: the job trains.
std::string CheckpointDirectory(const TrainingJob& job, const PodSettings& settings);

// Which pod to build.
struct PodRequest {
  TaskId task;
  PodNumber number;
  Epoch epoch;
  std::string node;             // empty: a scheduler chooses it
  int64_t control_counter = 0;  // of the job's newest control message
  // Of the built-in trainer's ps: who stands for each, by number.
  std::vector<Incarnation> ps_incarnations = {};
  std::string pod_group = {};  // by which kube-scheduler places it with others; empty: none

  friend bool operator==(const PodRequest&, const PodRequest&) = default;
};

// The complete pod: name, labels, node, command, resources and the environment of the contract.
// The command is the runtime's, which trains or supervises the template's own command, or that
// command itself for a role that is not supervised. Variables of the contract win over the
// template's.
// Precondition: the topology of the job is sound and has the task (checked).
// Errors: as MakeWorkerEnvironment and RenderEnvironment.
Result<kube::Pod> BuildPod(const TrainingJob& job,
                           const PodRequest& request,
                           const PodSettings& settings);

}  // namespace lockstep::control
