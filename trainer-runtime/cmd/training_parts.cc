#include "trainer-runtime/cmd/training_parts.h"

#include <filesystem>
#include <future>
#include <system_error>
#include <utility>
#include <vector>

#include "common/json/json.h"
#include "trainer-runtime/data/label_check.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/strategy/lent_replica.h"
#include "trainer-runtime/strategy/make_strategy.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kBlockingVariable = "NCCL_COMM_BLOCKING";

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

// GPUs and NCCL, for a job that insists on them: those that its engines compute on, or else the
// first visible one.
Result<NcclOffer> LoadNccl(std::vector<int> devices) {
  if (devices.empty()) {
    devices.push_back(0);
  }
  Result<std::shared_ptr<NcclGround>> ground = OpenNccl(devices);
  if (ground.ok()) {
    return OfferOf(std::move(ground).value());
  }
  return Error(ground.error().code(),
               "Nccl is set, but " + ground.error().message() + "; Auto and Cpu train without NCCL")
      .WithField("spec.training.communication.allReduce");
}

// Whether gradients are summed over the ranks of the job.
bool SumsOverRanks(const TrainingSpec& spec) {
  return spec.variables != VariablePlacement::kIndependent &&
         spec.variables != VariablePlacement::kParameterServers;
}

// Under Auto: of an engine in the host's memory the CPU's way is the shorter one.
Result<std::optional<NcclOffer>> MakeNcclOffer(const TrainingSpec& spec,
                                               ReplicaSet* replicas,
                                               bool may_block) {
  if (!SumsOverRanks(spec) || spec.communication.all_reduce == AllReduceBackend::kCpu) {
    return std::optional<NcclOffer>();
  }
  const std::vector<int> devices = replicas->Devices();
  if (spec.communication.all_reduce == AllReduceBackend::kNccl) {
    LOCKSTEP_ASSIGN_OR_RETURN(NcclOffer offer, LoadNccl(devices));
    return std::optional(std::move(offer));
  }
  NcclOffer offer = OfferNccl(devices);
  if (offer.ground != nullptr && may_block) {
    offer.lack = NcclObstacleKind::kMayBlock;
    offer.words = "NCCL_COMM_BLOCKING=1 lets NCCL wait without a time limit";
  }
  return std::optional(std::move(offer));
}

// Whether the gradients of this rank may be summed with those of others by the CPU.
bool MayMeetByCpu(const TrainingSpec& spec, const WorkerEnvironment& environment) {
  return environment.world_size > 1 && spec.communication.all_reduce != AllReduceBackend::kNccl &&
         SumsOverRanks(spec);
}

// The training samples of a rank that trains a model of its own.
Result<Dataset> PartOfRank(const Dataset& train, const WorkerEnvironment& environment) {
  if (train.sample_count() < environment.world_size) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(environment.world_size) + " ranks found, but only " +
                     std::to_string(train.sample_count()) +
                     " training samples; expected at least one sample for each rank's model")
        .WithField("spec.roles");
  }
  return train.Part(environment.rank.value_or(0), environment.world_size);
}

}  // namespace

Result<TrainingParts> LoadTrainingParts(const TrainingSpec& spec,
                                        const WorkerEnvironment& environment,
                                        const LoadingOptions& options) {
  // First: what is not there is known at once. Which GPUs the engines take is known of them later.
  if (spec.communication.all_reduce == AllReduceBackend::kNccl && spec.devices.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const NcclOffer there, LoadNccl({}));
  }
  auto reading = std::async(std::launch::async, [&spec, &environment] {
    return LoadDataset(spec.dataset, environment.data_directory);
  });
  Result<std::unique_ptr<ReplicaSet>> replicas = LoadReplicas(spec, options.engine_path);
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
  LOCKSTEP_ASSIGN_OR_RETURN(parts.nccl,
                            MakeNcclOffer(spec, parts.replicas.get(), options.nccl_may_block));
  if (MayMeetByCpu(spec, environment)) {
    auto lent = LendFirstReplica(parts.replicas.get());
    if (lent.ok()) {
      parts.lent = std::move(lent).value();
    } else {
      parts.not_lent = lent.error();
    }
  }
  return parts;
}

bool NcclMayBlock(const EnvironmentMap& variables) {
  const auto blocking = variables.find(kBlockingVariable);
  return blocking != variables.end() && blocking->second == "1";
}

Result<TrainingSpec> CheckNcclVariables(TrainingSpec spec, const EnvironmentMap& variables) {
  if (spec.communication.all_reduce == AllReduceBackend::kNccl && NcclMayBlock(variables)) {
    return Error(ErrorCode::kInvalidArgument,
                 "1 found, expected 0 or no value: with allReduce: Nccl, Lockstep must be able to "
                 "end each wait")
        .WithField(kBlockingVariable);
  }
  return spec;
}

}  // namespace lockstep::runtime
