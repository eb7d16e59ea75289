#include "trainer-runtime/cmd/program_service.h"

#include <cstddef>
#include <utility>

#include "common/contract/environment/supervised_place.h"
#include "trainer-runtime/supervisor/status/step_file.h"
#include "trainer-runtime/supervisor/status/tf_config_endpoint.h"

namespace lockstep::runtime {
namespace {

void OfferStepFile(PodListener* listener,
                   Logger* logger,
                   std::vector<SupervisedProcess>* processes) {
  Result<StepFile> file = StepFile::Make(static_cast<int>(processes->size()));
  if (!file.ok()) {
    logger->Warn("steps of optimizers are not counted", {{"error", file.error().ToString()}});
    return;
  }
  for (SupervisedProcess& process : *processes) {
    process.environment[kStepFileVariable] = file->path();
  }
  listener->ReadSteps(std::move(file).value());
}

}  // namespace

ProgramService ServePrograms(const WorkerEnvironment& environment,
                             const std::function<GangStart()>& start,
                             PodListener* listener,
                             Logger* logger,
                             std::vector<SupervisedProcess>* processes) {
  OfferStepFile(listener, logger, processes);
  ProgramService service;
  HttpRoutes routes = MakeTfConfigRoutes(environment, start);
  Result<TrainerToken> token = TrainerToken::Make();
  if (token.ok()) {
    service.token = std::move(token).value();
    routes.merge(MakeTrainerStatusRoutes(
        environment, service.token->word(), [listener](const TrainerStatus& status) {
          listener->TakeTrainerStatus(status);
        }));
  } else {
    logger->Warn("status reports of trainers are not accepted",
                 {{"error", token.error().ToString()}});
  }
  auto server = ServeToPrograms(environment, std::move(routes), logger);
  if (!server.ok()) {
    logger->Warn("TF_CONFIG is not served, and status reports of trainers are not accepted",
                 {{"error", server.error().ToString()}});
  }
  for (std::size_t local_rank = 0; local_rank < processes->size(); ++local_rank) {
    EnvironmentMap& variables = (*processes)[local_rank].environment;
    variables.erase(env::kTfConfigUrl);  // of a runtime around this one
    if (!server.ok()) {
      continue;
    }
    const int port = (*server)->port();
    variables[env::kTfConfigUrl] = TfConfigUrl(environment, port, static_cast<int>(local_rank));
    if (service.token.has_value()) {
      OfferTrainerStatus(environment, port, service.token->path(), &variables);
    }
  }
  service.server = server.ok() ? std::move(server).value() : nullptr;
  return service;
}

}  // namespace lockstep::runtime
