#include "common/contract/environment/environment.h"

#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/contract/environment/cluster_shape.h"

namespace lockstep {
namespace {

void SetUnlessEmpty(const char* name, const std::string& value, EnvironmentMap* variables) {
  if (!value.empty()) {
    (*variables)[name] = value;
  }
}

void SetNumber(const char* name, int64_t value, EnvironmentMap* variables) {
  (*variables)[name] = std::to_string(value);
}

void RenderOwn(const WorkerEnvironment& environment, EnvironmentMap* variables) {
  SetUnlessEmpty(env::kJob, environment.job, variables);
  SetUnlessEmpty(env::kNamespace, environment.namespace_name, variables);
  SetUnlessEmpty(env::kJobUid, environment.job_uid, variables);
  SetNumber(env::kAttempt, environment.attempt.value(), variables);
  SetNumber(env::kEpoch, environment.epoch.value(), variables);
  SetNumber(env::kIncarnation, environment.incarnation.value(), variables);
  SetUnlessEmpty(env::kPod, environment.pod, variables);
  (*variables)[env::kRole] = std::string(RoleName(environment.task.role));
  SetNumber(env::kIndex, environment.task.index, variables);
  if (environment.rank.has_value()) {
    SetNumber(env::kRank, *environment.rank, variables);
  }
  SetNumber(env::kWorldSize, environment.world_size, variables);
  SetNumber(env::kProcesses, environment.processes, variables);
  SetUnlessEmpty(env::kHost, environment.host, variables);
  SetUnlessEmpty(env::kBindAddress, environment.bind_address, variables);
  SetNumber(env::kStatusPort, environment.status_port, variables);
  SetUnlessEmpty(env::kJobKeyFile, environment.job_key_file, variables);
  SetUnlessEmpty(env::kTraining, environment.training, variables);
  SetUnlessEmpty(env::kCheckpointDirectory, environment.checkpoint_directory, variables);
  SetUnlessEmpty(env::kDataDirectory, environment.data_directory, variables);
  SetNumber(env::kGraceSeconds, environment.grace.count(), variables);
  SetUnlessEmpty(env::kTerminationMessageFile, environment.termination_message_file, variables);
  SetNumber(env::kRendezvousTimeoutSeconds, environment.rendezvous_timeout.count(), variables);
  SetNumber(env::kSilentAfterMs, environment.silent_after.count(), variables);
  if (environment.hung_after.has_value()) {
    SetNumber(env::kHungAfterMs, environment.hung_after->count(), variables);
  }
  if (environment.hold.count() > 0) {
    SetNumber(env::kHoldSeconds, environment.hold.count(), variables);
  }
  if (environment.launcher.has_value()) {
    (*variables)[env::kLauncher] =
        std::string(NameOf(kProcessLauncherNames, *environment.launcher));
  }
  if (environment.gpu_visibility.has_value()) {
    (*variables)[env::kGpuVisibility] =
        std::string(NameOf(kGpuVisibilityNames, *environment.gpu_visibility));
  }
  SetUnlessEmpty(env::kCluster, environment.cluster, variables);
  if (environment.control_counter > 0) {
    SetNumber(env::kControlCounter, environment.control_counter, variables);
  }
  std::string incarnations;
  for (const Incarnation incarnation : environment.ps_incarnations) {
    incarnations += (incarnations.empty() ? "" : ",") + std::to_string(incarnation.value());
  }
  SetUnlessEmpty(env::kPsIncarnations, incarnations, variables);
}

void RenderForTorch(const WorkerEnvironment& environment,
                    int local_rank,
                    EnvironmentMap* variables) {
  SetNumber(env::kTorchRank, *environment.rank + local_rank, variables);
  SetNumber(env::kTorchWorldSize, environment.world_size, variables);
  SetNumber(env::kTorchLocalRank, local_rank, variables);
  SetNumber(env::kTorchLocalWorldSize, environment.processes, variables);
  SetUnlessEmpty(env::kTorchMasterAddress, environment.master.host, variables);
  if (!environment.master.host.empty()) {
    SetNumber(env::kTorchMasterPort, environment.master.port, variables);
  }
  // As torchrun sets them: a group is the processes of one pod, the run keeps its id over restarts,
  // and all processes count the same restarts, those of the whole gang.
  SetNumber(env::kTorchNodeRank, *environment.rank / environment.processes, variables);
  SetNumber(env::kTorchGroupRank, *environment.rank / environment.processes, variables);
  SetUnlessEmpty(env::kTorchRunId, environment.job_uid, variables);
  SetNumber(env::kTorchRestartCount, environment.attempt.value(), variables);
}

// Horovod counts a third way: "cross" numbers the pods among processes of one local rank.
void RenderForHorovod(const WorkerEnvironment& environment,
                      int local_rank,
                      EnvironmentMap* variables) {
  SetNumber(env::kHorovodRank, *environment.rank + local_rank, variables);
  SetNumber(env::kHorovodSize, environment.world_size, variables);
  SetNumber(env::kHorovodLocalRank, local_rank, variables);
  SetNumber(env::kHorovodLocalSize, environment.processes, variables);
  SetNumber(env::kHorovodCrossRank, *environment.rank / environment.processes, variables);
  SetNumber(env::kHorovodCrossSize, environment.world_size / environment.processes, variables);
  SetUnlessEmpty(env::kHorovodHostname, environment.host, variables);
  (*variables)[env::kHorovodController] = "gloo";
  (*variables)[env::kHorovodCpuOperations] = "gloo";
  SetUnlessEmpty(env::kHorovodGlooInterface, environment.network, variables);
  SetUnlessEmpty(env::kHorovodRendezvousAddress, environment.master.host, variables);
  if (!environment.master.host.empty()) {
    SetNumber(env::kHorovodRendezvousPort, environment.horovod_port, variables);
  }
}

// Linux passes "NAME=value" with its final zero in at most kTfConfigBytesMax bytes.
Status CheckSizes(const EnvironmentMap& variables) {
  for (const auto& [name, value] : variables) {
    if (name.size() + value.size() + 2 > kTfConfigBytesMax) {
      return Error(ErrorCode::kResourceExhausted,
                   std::to_string(value.size()) + " bytes found, expected at most " +
                       std::to_string(kTfConfigBytesMax - name.size() - 2) +
                       ", the longest environment variable that Linux accepts")
          .WithField(name);
    }
  }
  return OkStatus();
}

// Settings that say what is so anyway are left out: the defaults are part of the contract. The
// number of processes follows from the shape as well; `lockstep-runtime devices` in the pod goes by
// its variable.
void DropDefaults(EnvironmentMap* variables) {
  EnvironmentMap usual;
  RenderOwn(WorkerEnvironment(), &usual);
  for (const char* const name : {env::kProcesses,
                                 env::kBindAddress,
                                 env::kStatusPort,
                                 env::kGraceSeconds,
                                 env::kRendezvousTimeoutSeconds,
                                 env::kSilentAfterMs}) {
    const auto found = variables->find(name);
    if (found != variables->end() && found->second == usual.at(name)) {
      variables->erase(found);
    }
  }
}

bool WantsShape(const JobTopology& topology) {
  return std::holds_alternative<DnsAddressing>(topology.addressing) &&
         EstimateTfConfigBytes(topology) > kInlineTfConfigBytes;
}

// TF_CONFIG of one process; kTfConfigTooLong where it cannot be passed on and LOCKSTEP_CLUSTER says
// the same.
Result<std::string> RenderTfConfig(const WorkerEnvironment& environment, int local_rank) {
  Result<std::string> text = EncodeTfConfig(TfConfigOfProcess(environment, local_rank));
  const bool is_too_long = !text.ok() && text.error().code() == ErrorCode::kResourceExhausted;
  return is_too_long && !environment.cluster.empty() ? std::string(kTfConfigTooLong)
                                                     : std::move(text);
}

}  // namespace

Result<WorkerEnvironment> MakeWorkerEnvironment(const JobTopology& topology,
                                                const PodIdentity& identity,
                                                TfConfigForm form) {
  WorkerEnvironment environment;
  if (form == TfConfigForm::kShapeWhenLong && WantsShape(topology)) {
    // Without the port, which is a variable beside it: a runtime that is older than the field reads
    // this one too.
    JobTopology shape = topology;
    shape.master_port.reset();
    environment.cluster = EncodeClusterShape(shape);
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(environment.tf_config, MakeTfConfig(topology, {identity.task, 0}));
  }
  environment.job = topology.job;
  environment.namespace_name = topology.namespace_name;
  environment.job_uid = identity.job_uid;
  environment.attempt = identity.number.attempt;
  environment.incarnation = identity.number.incarnation;
  environment.epoch = identity.epoch;
  environment.pod = PodName(topology.job, identity.task, identity.number);
  environment.task = identity.task;
  environment.rank = FirstRankOf(topology, identity.task);
  environment.world_size = WorldSize(topology);
  environment.processes = ProcessesOf(topology, identity.task.role);
  environment.host = HostOf(topology, identity.task);
  environment.status_port = StatusPortOf(topology.addressing);
  const bool is_loopback = std::holds_alternative<LoopbackAddressing>(topology.addressing);
  if (is_loopback) {
    // All pods share the machine's ports, so each binds its own address only.
    environment.bind_address = environment.host;
  }
  if (environment.rank.has_value()) {
    environment.master = MasterAddress(topology);
    environment.horovod_port = HorovodAddress(topology).port;
    environment.network = is_loopback ? "lo" : "eth0";  // the name container runtimes give
  }
  return environment;
}

Result<EnvironmentMap> RenderEnvironment(const WorkerEnvironment& environment) {
  return RenderEnvironmentForProcess(environment, 0);
}

TfConfig TfConfigOfProcess(const WorkerEnvironment& environment, int local_rank) {
  LOCKSTEP_CHECK(local_rank >= 0 && local_rank < environment.processes,
                 "local rank " + std::to_string(local_rank) + " does not exist: the pod has " +
                     std::to_string(environment.processes) + " processes");
  const bool is_other_process =
      local_rank > 0 && environment.rank.has_value() && !environment.tf_config.is_local();
  return is_other_process ? TfConfigOfRank(environment.tf_config, *environment.rank + local_rank)
                          : environment.tf_config;
}

Result<EnvironmentMap> RenderEnvironmentForProcess(const WorkerEnvironment& environment,
                                                   int local_rank) {
  EnvironmentMap variables;
  RenderOwn(environment, &variables);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string tf_config, RenderTfConfig(environment, local_rank));
  SetUnlessEmpty(env::kTfConfig, tf_config, &variables);
  if (environment.rank.has_value()) {
    RenderForTorch(environment, local_rank, &variables);
    RenderForHorovod(environment, local_rank, &variables);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSizes(variables));
  return variables;
}

Result<EnvironmentMap> RenderBriefEnvironment(const JobTopology& topology,
                                              const WorkerEnvironment& environment) {
  LOCKSTEP_CHECK(environment.host == HostOf(topology, environment.task),
                 environment.host + " is not in this topology");
  EnvironmentMap variables;
  RenderOwn(environment, &variables);
  for (const char* const name : {env::kJob,
                                 env::kAttempt,
                                 env::kIncarnation,
                                 env::kRole,
                                 env::kIndex,
                                 env::kRank,
                                 env::kWorldSize,
                                 env::kHost}) {
    variables.erase(name);
  }
  DropDefaults(&variables);
  variables[env::kCluster] = EncodeClusterShape(topology);
  LOCKSTEP_RETURN_IF_ERROR(CheckSizes(variables));
  return variables;
}

}  // namespace lockstep
