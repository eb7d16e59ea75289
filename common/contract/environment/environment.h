#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/contract/command/launcher.h"
#include "common/contract/environment/gpu_visibility.h"
#include "common/contract/environment/tf_config.h"
#include "common/contract/environment/topology.h"

namespace lockstep {

// Every variable a pod is born with. Ours first, then what programs written for TensorFlow, torch
// and Horovod read. docs/reference/environment.md says for whom each is.
namespace env {
inline constexpr const char* kJob = "LOCKSTEP_JOB";
inline constexpr const char* kNamespace = "LOCKSTEP_NAMESPACE";
inline constexpr const char* kJobUid = "LOCKSTEP_JOB_UID";
inline constexpr const char* kAttempt = "LOCKSTEP_ATTEMPT";
inline constexpr const char* kEpoch = "LOCKSTEP_EPOCH";
inline constexpr const char* kIncarnation = "LOCKSTEP_INCARNATION";
inline constexpr const char* kPod = "LOCKSTEP_POD";
inline constexpr const char* kRole = "LOCKSTEP_ROLE";
inline constexpr const char* kIndex = "LOCKSTEP_INDEX";
inline constexpr const char* kRank = "LOCKSTEP_RANK";
inline constexpr const char* kWorldSize = "LOCKSTEP_WORLD_SIZE";
inline constexpr const char* kProcesses = "LOCKSTEP_PROCESSES";
inline constexpr const char* kHost = "LOCKSTEP_HOST";
inline constexpr const char* kBindAddress = "LOCKSTEP_BIND_ADDRESS";
inline constexpr const char* kStatusPort = "LOCKSTEP_STATUS_PORT";
inline constexpr const char* kJobKeyFile = "LOCKSTEP_JOB_KEY_FILE";
inline constexpr const char* kTraining = "LOCKSTEP_TRAINING";
inline constexpr const char* kCheckpointDirectory = "LOCKSTEP_CHECKPOINT_DIR";
inline constexpr const char* kDataDirectory = "LOCKSTEP_DATA_DIR";
inline constexpr const char* kGraceSeconds = "LOCKSTEP_GRACE_SECONDS";
inline constexpr const char* kTerminationMessageFile = "LOCKSTEP_TERMINATION_MESSAGE_FILE";
inline constexpr const char* kRendezvousTimeoutSeconds = "LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS";
inline constexpr const char* kSilentAfterMs = "LOCKSTEP_SILENT_AFTER_MS";
inline constexpr const char* kHungAfterMs = "LOCKSTEP_HUNG_AFTER_MS";
inline constexpr const char* kHoldSeconds = "LOCKSTEP_HOLD_SECONDS";
inline constexpr const char* kLauncher = "LOCKSTEP_LAUNCHER";
inline constexpr const char* kGpuVisibility = "LOCKSTEP_GPU_VISIBILITY";
inline constexpr const char* kCluster = "LOCKSTEP_CLUSTER";
inline constexpr const char* kControlCounter = "LOCKSTEP_CONTROL_COUNTER";
inline constexpr const char* kPsIncarnations = "LOCKSTEP_PS_INCARNATIONS";

inline constexpr const char* kTfConfig = "TF_CONFIG";

inline constexpr const char* kTorchRank = "RANK";
inline constexpr const char* kTorchWorldSize = "WORLD_SIZE";
inline constexpr const char* kTorchLocalRank = "LOCAL_RANK";
inline constexpr const char* kTorchLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kTorchMasterAddress = "MASTER_ADDR";
inline constexpr const char* kTorchMasterPort = "MASTER_PORT";

// torch's own launcher counts so; Lightning goes by them where a job has several pods.
inline constexpr const char* kTorchNodeRank = "NODE_RANK";
inline constexpr const char* kTorchGroupRank = "GROUP_RANK";
inline constexpr const char* kTorchRunId = "TORCHELASTIC_RUN_ID";
inline constexpr const char* kTorchRestartCount = "TORCHELASTIC_RESTART_COUNT";

inline constexpr const char* kHorovodRank = "HOROVOD_RANK";
inline constexpr const char* kHorovodSize = "HOROVOD_SIZE";
inline constexpr const char* kHorovodLocalRank = "HOROVOD_LOCAL_RANK";
inline constexpr const char* kHorovodLocalSize = "HOROVOD_LOCAL_SIZE";
inline constexpr const char* kHorovodCrossRank = "HOROVOD_CROSS_RANK";
inline constexpr const char* kHorovodCrossSize = "HOROVOD_CROSS_SIZE";
inline constexpr const char* kHorovodHostname = "HOROVOD_HOSTNAME";
inline constexpr const char* kHorovodController = "HOROVOD_CONTROLLER";
inline constexpr const char* kHorovodCpuOperations = "HOROVOD_CPU_OPERATIONS";
inline constexpr const char* kHorovodGlooInterface = "HOROVOD_GLOO_IFACE";
inline constexpr const char* kHorovodRendezvousAddress = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
inline constexpr const char* kHorovodRendezvousPort = "HOROVOD_GLOO_RENDEZVOUS_PORT";
}  // namespace env

using EnvironmentMap = std::map<std::string, std::string>;

// Kubernetes' default grace period of a pod.
inline constexpr std::chrono::seconds kDefaultGrace{30};

// How long ranks wait for each other before the process gives up as retryable. Choice: an image of
// several gigabytes is pulled in that time; the operator says the job's own
// (recovery.rendezvousTimeoutSeconds).
inline constexpr std::chrono::seconds kDefaultRendezvousTimeout{600};

// A rank that says nothing for so long counts as lost. Choice: noticed within two seconds, and a
// process that is starved for one is not taken for a frozen one.
inline constexpr std::chrono::milliseconds kDefaultSilentAfter{1500};

// What a pod knows at birth, as values. The operator makes it and renders it; the runtime parses
// it. The job's key is never in here, only the name of the file that holds it.
struct WorkerEnvironment {
  std::string job;
  std::string namespace_name;
  std::string job_uid;
  Attempt attempt;
  Epoch epoch;
  Incarnation incarnation;
  std::string pod;
  TaskId task;
  std::optional<int> rank;  // of the pod's first process; absent for ps and evaluator
  int world_size = 1;       // ranks of the job
  int processes = 1;        // of this pod; equal in all pods that train
  std::string host;         // this pod's own host: DNS name or loopback address
  std::string bind_address = "0.0.0.0";
  int status_port = kStatusPort;
  std::string job_key_file;          // empty: no control messages, status for everybody refused
  std::string training;              // JSON of the resolved spec.training; empty for a command
  std::string checkpoint_directory;  // empty: none
  std::string data_directory;        // base of relative data set paths; empty: working directory
  std::chrono::seconds grace = kDefaultGrace;
  std::string termination_message_file;  // empty: none
  std::chrono::seconds rendezvous_timeout = kDefaultRendezvousTimeout;
  std::chrono::milliseconds silent_after = kDefaultSilentAfter;
  // A rank of a command that does nothing for so long is ended; null: nobody is watched.
  std::optional<std::chrono::milliseconds> hung_after;
  // How long a pod whose programs have ended waits for their relaunch; 0: it ends with them.
  std::chrono::seconds hold{0};
  // Who starts a command's processes; null: the runtime finds out.
  std::optional<ProcessLauncher> launcher;
  // Of a command's processes; null: all GPUs, or one each where processes share a GPU.
  std::optional<GpuVisibility> gpu_visibility;
  TfConfig tf_config;   // of the pod's first process
  std::string cluster;  // the shape that tf_config follows from; empty: it stands for itself
  int64_t control_counter =
      0;  // of the newest control message before the pod: older ones are stale
  // Who stands for each ps when the pod is born, itself included; empty: the first of each.
  std::vector<Incarnation> ps_incarnations;
  HostPort master;      // MASTER_ADDR and MASTER_PORT; empty for ps and evaluator
  std::string network;  // the interface for Horovod's traffic, "lo" or "eth0"; empty likewise
  int horovod_port = kHorovodPort;  // of its rendezvous, at the master's host

  friend bool operator==(const WorkerEnvironment&, const WorkerEnvironment&) = default;
};

// Which pod of a job an environment is for.
struct PodIdentity {
  TaskId task;
  PodNumber number;
  Epoch epoch;
  std::string job_uid;
};

// Whether a pod carries TF_CONFIG in full, or the shape of the job where that is shorter.
enum class TfConfigForm { kFull, kShapeWhenLong };

// The environment of one pod as far as the topology decides it: identity, ranks, addresses,
// TF_CONFIG, which is left out where the pod gets the job's shape (cluster_shape.h). The caller
// fills in files, directories, training and times.
// Precondition: CheckTopology(topology) is empty and the pod is in the job (checked).
// Errors: as MakeTfConfig.
Result<WorkerEnvironment> MakeWorkerEnvironment(const JobTopology& topology,
                                                const PodIdentity& identity,
                                                TfConfigForm form = TfConfigForm::kFull);

// All variables of the pod, as seen by its first process. Variables that do not apply (RANK of an
// evaluator, TF_CONFIG of a lone worker, empty fields) are left out. Errors: kResourceExhausted (a
// variable longer than Linux passes on; TF_CONFIG is then kTfConfigTooLong where the job's shape is
// there to be read instead).
Result<EnvironmentMap> RenderEnvironment(const WorkerEnvironment& environment);

// The least that tells a runtime of this version the same: who the pod is, LOCKSTEP_CLUSTER, and
// settings that differ from their defaults. ParseEnvironment makes the rest of it, so that programs
// under the runtime see what RenderEnvironmentForProcess gives, and LOCKSTEP_CLUSTER. A third of
// the variables: their names stand in each pod's managed fields a second time, and every write of a
// status merges those.
// Precondition (checked): pods are found by DNS; the environment is of this topology.
// Errors: as RenderEnvironment.
Result<EnvironmentMap> RenderBriefEnvironment(const JobTopology& topology,
                                              const WorkerEnvironment& environment);

// The same as seen by process `local_rank` of the pod: TF_CONFIG's task, RANK, LOCAL_RANK and
// HOROVOD_* are its own; LOCKSTEP_* still describe the pod.
// Precondition (checked): 0 <= local_rank < processes.
Result<EnvironmentMap> RenderEnvironmentForProcess(const WorkerEnvironment& environment,
                                                   int local_rank);

// TF_CONFIG as process `local_rank` of the pod is to see it. Precondition (checked):
// 0 <= local_rank < processes.
TfConfig TfConfigOfProcess(const WorkerEnvironment& environment, int local_rank);

// Reads the pod's variables back: LOCKSTEP_*, TF_CONFIG, MASTER_* and HOROVOD_GLOO_IFACE. RANK and
// its kin are written for programs, never believed. Variables of other owners are ignored. Without
// TF_CONFIG it is made from the job's shape; without LOCKSTEP_WORLD_SIZE too, as a brief
// environment leaves it out, all that follows from the shape is, and nothing of it is read. Errors:
// kInvalidArgument, kMismatch (TF_CONFIG contradicts LOCKSTEP_RANK, _ROLE or _WORLD_SIZE); names
// each variable at fault, its value and what was expected.
Result<WorkerEnvironment> ParseEnvironment(const EnvironmentMap& variables);

}  // namespace lockstep
