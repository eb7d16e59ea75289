#include "trainer-runtime/cmd/train_command.h"

#include <utility>

#include "common/contract/environment/supervised_place.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/cmd/devices/device_choice.h"
#include "trainer-runtime/cmd/ps_process.h"
#include "trainer-runtime/cmd/training_parts.h"
#include "trainer-runtime/cmd/training_process.h"
#include "trainer-runtime/collectives/nccl/nccl_network.h"

namespace lockstep::runtime {
namespace {

// The environment of one of the pod's processes.
WorkerEnvironment OfProcess(WorkerEnvironment environment, const ProcessPlace& place) {
  if (environment.rank.has_value()) {
    *environment.rank += place.local_rank;
  }
  environment.incarnation = IncarnationOfProcess(environment.incarnation, place.start);
  return environment;
}

}  // namespace

int TrainCommand(const EnvironmentMap& variables, const TrainCommandOptions& options) {
  Result<WorkerEnvironment> environment = ParseEnvironment(variables);
  if (!environment.ok()) {
    options.logger->Error(
        "the environment variables do not describe a worker of a job; `lockstep run` and the "
        "operator set them",
        {{"error", environment.error().ToString()}});
    return kExitUserError;
  }
  if (options.place.has_value()) {
    environment = OfProcess(std::move(environment).value(), *options.place);
  }
  Result<TrainingSpec> spec = ParseTrainingSpec(environment->training);
  if (spec.ok()) {
    spec = CheckNcclVariables(std::move(spec).value(), variables);
  }
  const bool is_ps = spec.ok() && spec->variables == VariablePlacement::kParameterServers &&
                     environment->task.role == Role::kPs;
  if (spec.ok() && !is_ps) {
    spec = CheckDevices(std::move(spec).value(), options.devices);
  }
  if (is_ps) {
    return PsProcess(std::move(environment).value(), std::move(spec).value(), options).Run();
  }
  if (!spec.ok() || !environment->rank.has_value()) {
    const Error error = spec.ok()
                            ? Error(ErrorCode::kInvalidArgument, "pods of this role do not train")
                                  .WithField(env::kRole)
                            : spec.error();
    options.logger->Error("nothing to train", {{"error", error.ToString()}});
    TerminationMessage message;
    message.outcome = Outcome::kPermanent;
    message.reason = error.ToString();
    TellEnd(*environment, options, message);
    return kExitUserError;
  }
  TrainCommandOptions own = options;
  own.nccl_may_block = NcclMayBlock(variables);
  own.nccl_chooses_network = NcclChoosesNetwork(variables);
  TrainingProcess process(std::move(environment).value(), std::move(spec).value(), std::move(own));
  return process.Run();
}

}  // namespace lockstep::runtime
