#include "trainer-runtime/cmd/training_parts.h"

#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "common/json/json.h"
#include "trainer-runtime/data/label_check.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/strategy/make_strategy.h"

namespace lockstep::runtime {
namespace {

std::string ExecutableDirectory() {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : executable.parent_path().string();
}

Result<std::unique_ptr<ReplicaSet>> LoadReplicas(const TrainingSpec& spec,
                                                 const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const EnginePlugin plugin,
                            EnginePlugin::Load({path, ExecutableDirectory()}));
  return MakeReplicas(spec, [&plugin](const TrainingSpec& of_engine) {
    return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(of_engine)));
  });
}

// GPU and NCCL, for a job that insists on them. Auto never does: this engine keeps its gradients in
// host memory, from where the CPU's way is the shorter one.
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
  std::unique_ptr<Strategy> strategy = MakeStrategy(spec, replicas->get());
  return TrainingParts{
      std::move(replicas).value(), std::move(strategy), std::move(data).value(), std::move(nccl)};
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
