#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/log.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/relaunch.h"
#include "common/http/http_server.h"
#include "trainer-runtime/supervisor/status/pod_listener.h"
#include "trainer-runtime/supervisor/status/trainer_status.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {

// What is served to the programs of this pod alone.
struct ProgramService {
  std::optional<TrainerToken> token;
  std::unique_ptr<HttpServer> server;  // null: nothing is
};

// Has the programs find TF_CONFIG of now, where `start` is the newest start of the gang, and where
// they tell how far they are: trainers by a request, optimizers of torch by a file. They do without
// what cannot be offered, and the log says so. `start` is called on the server's thread; what it
// needs, `listener` and `logger` outlive the service.
ProgramService ServePrograms(const WorkerEnvironment& environment,
                             const std::function<GangStart()>& start,
                             PodListener* listener,
                             Logger* logger,
                             std::vector<SupervisedProcess>* processes);

}  // namespace lockstep::runtime
