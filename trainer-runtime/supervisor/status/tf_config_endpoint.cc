#include "trainer-runtime/supervisor/status/tf_config_endpoint.h"

#include <memory>
#include <utility>

#include "common/contract/environment/tf_config.h"

namespace lockstep::runtime {
namespace {

std::string PathOf(int local_rank) {
  return "/tf_config/" + std::to_string(local_rank);
}

}  // namespace

HttpRoutes MakeTfConfigRoutes(const WorkerEnvironment& environment,
                              const std::function<GangStart()>& start) {
  // Shared by the handlers, which only read it: it may name thousands of addresses.
  const auto shared = std::make_shared<const WorkerEnvironment>(environment);
  HttpRoutes routes;
  for (int local_rank = 0; local_rank < environment.processes; ++local_rank) {
    routes[PathOf(local_rank)]["GET"] = [shared, start, local_rank](const HttpServerRequest&) {
      const TfConfig config = TfConfigOfProcess(*shared, local_rank);
      return HttpServerResponse{
          200, "application/json", EncodeServedTfConfig(config, shared->task, start())};
    };
  }
  return routes;
}

std::string LoopbackAddress(const WorkerEnvironment& environment) {
  return environment.bind_address.starts_with("127.") ? environment.bind_address : "127.0.0.1";
}

Result<std::unique_ptr<HttpServer>> ServeToPrograms(const WorkerEnvironment& environment,
                                                    HttpRoutes routes,
                                                    Logger* logger) {
  HttpServerOptions options;
  options.bind_address = LoopbackAddress(environment);
  options.port = 0;
  options.logger = logger;
  return HttpServer::Start(std::move(options), std::move(routes));
}

std::string TfConfigUrl(const WorkerEnvironment& environment, int port, int local_rank) {
  return "http://" + LoopbackAddress(environment) + ":" + std::to_string(port) + PathOf(local_rank);
}

}  // namespace lockstep::runtime
