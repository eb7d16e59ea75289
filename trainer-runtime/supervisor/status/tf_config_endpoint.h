#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/environment/relaunch.h"
#include "common/http/http_server.h"

namespace lockstep::runtime {

// Programs learn from their environment who they are among whom when they start. A program that
// wants to know it later, or whose TF_CONFIG is longer than Linux passes on, asks its pod:
//   GET /tf_config/LOCAL_RANK   200 and TF_CONFIG of that process now, with "attempt" and "epoch"
// 404 for other paths, 405 for other methods. `start`, the newest start of the gang, is called on
// the server's thread and must return at once.
HttpRoutes MakeTfConfigRoutes(const WorkerEnvironment& environment,
                              const std::function<GangStart()>& start);

// Where this pod's programs reach what is served to them alone: the address of loopback that is
// this pod's own on a machine of many, else 127.0.0.1.
std::string LoopbackAddress(const WorkerEnvironment& environment);

// Serves `routes` there, on any free port: pods with the host's network share that address.
// `logger` outlives the server. Errors: as HttpServer::Start.
Result<std::unique_ptr<HttpServer>> ServeToPrograms(const WorkerEnvironment& environment,
                                                    HttpRoutes routes,
                                                    Logger* logger);

// What process `local_rank` is told as LOCKSTEP_TF_CONFIG_URL, of a server on `port`.
std::string TfConfigUrl(const WorkerEnvironment& environment, int port, int local_rank);

}  // namespace lockstep::runtime
