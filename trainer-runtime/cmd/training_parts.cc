#include "trainer-runtime/cmd/training_parts.h"

#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "common/json/json.h"
#include "trainer-runtime/data/label_check.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/strategy/lent_replica.h"
#include "trainer-runtime/strategy/make_strategy.h"

namespace lockstep::runtime {
namespace {

std::string ExecutableDirectory() {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : executable.parent_path().string();
}

// What a plug-in is told of the replica that it makes: its own device, if it has one.
TrainingSpec OfReplica(TrainingSpec spec, std::size_t replica) {
  if (!spec.devices.empty()) {
    spec.devices = {spec.devices[replica]};
    spec.replicas = 1;
  }
  return spec;
}

// Where the job names devices, with the engine for GPUs and a replica on each.
Result<std::unique_ptr<ReplicaSet>> LoadReplicas(const TrainingSpec& spec,
                                                 const std::string& path) {
  const EngineDevice device = spec.devices.empty() ? EngineDevice::kCpu : EngineDevice::kCuda;
  LOCKSTEP_ASSIGN_OR_RETURN(const EnginePlugin plugin,
                            EnginePlugin::Load({path, ExecutableDirectory(), device}));
  std::size_t replica = 0;
  return MakeReplicas(spec, [&](const TrainingSpec& of_engine) {
    return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(OfReplica(of_engine, replica++))));
  });
}

// GPU and NCCL, for a job that insists on them. Auto does not yet: of an engine in the host's
// memory the CPU's way is the shorter one, and nothing was tried on a GPU.
Result<std::shared_ptr<NcclGround>> LoadNccl(const CommunicationSpec& communication) {
  if (communication.all_reduce != AllReduceBackend::kNccl) {
    return std::shared_ptr<NcclGround>();
  }
  Result<std::shared_ptr<NcclGround>> ground = OpenNccl();
  if (ground.ok()) {
    return ground;
  }
  return Error(ground.error().code(),
               "Nccl found, but " + ground.error().message() + "; Auto and Cpu train without")
      .WithField("spec.training.communication.allReduce");
}

// Whether the gradients of this rank are summed with those of others by the CPU.
bool MeetsOtherRanks(const TrainingSpec& spec, const WorkerEnvironment& environment) {
  return environment.world_size > 1 && spec.communication.all_reduce != AllReduceBackend::kNccl &&
         spec.variables != VariablePlacement::kIndependent &&
         spec.variables != VariablePlacement::kParameterServers;
}

// The training samples of a rank that trains a model of its own.
Result<Dataset> PartOfRank(const Dataset& train, const WorkerEnvironment& environment) {
  if (train.sample_count() < environment.world_size) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(environment.world_size) + " ranks found, but only " +
                     std::to_string(train.sample_count()) +
                     " training samples; expected at least one for each rank's model")
        .WithField("spec.roles");
  }
  return train.Part(environment.rank.value_or(0), environment.world_size);
}

}  // namespace

Result<TrainingParts> LoadTrainingParts(const TrainingSpec& spec,
                                        const WorkerEnvironment& environment,
                                        const std::string& engine_path) {
  // First: what is not there is known at once.
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<NcclGround> nccl, LoadNccl(spec.communication));
  auto reading = std::async(std::launch::async, [&spec, &environment] {
    return LoadDataset(spec.dataset, environment.data_directory);
  });
  Result<std::unique_ptr<ReplicaSet>> replicas = LoadReplicas(spec, engine_path);
  Result<DatasetSplits> data = reading.get();
  if (!replicas.ok()) {
    return std::move(replicas).error();
  }
  if (!data.ok()) {
    return std::move(data).error();
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckLabels(spec, *data));
  if (spec.variables == VariablePlacement::kIndependent) {
    LOCKSTEP_ASSIGN_OR_RETURN(data->train, PartOfRank(data->train, environment));
  }
  TrainingParts parts;
  parts.replicas = std::move(replicas).value();
  parts.strategy = MakeStrategy(spec, parts.replicas.get());
  parts.data = std::move(data).value();
  parts.nccl = std::move(nccl);
  if (MeetsOtherRanks(spec, environment)) {
    auto lent = LendFirstReplica(parts.replicas.get());
    if (lent.ok()) {
      parts.lent = std::move(lent).value();
    } else {
      parts.not_lent = lent.error();
    }
  }
  return parts;
}

Result<TrainingSpec> CheckNcclVariables(TrainingSpec spec, const EnvironmentMap& variables) {
  const auto blocking = variables.find("NCCL_COMM_BLOCKING");
  if (spec.communication.all_reduce == AllReduceBackend::kNccl && blocking != variables.end() &&
      blocking->second == "1") {
    return Error(ErrorCode::kInvalidArgument,
                 "1 found, expected 0 or nothing with allReduce: Nccl, whose waits must end")
        .WithField(blocking->first);
  }
  return spec;
}

}  // namespace lockstep::runtime
