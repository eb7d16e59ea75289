#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"

namespace lockstep {
class HttpServer;
}

namespace lockstep::control {

struct HealthServerOptions {
  // Says why something is not as it should be. Called on the server's thread at each probe: must
  // return at once.
  using Check = std::function<Status()>;

  std::string bind_address = "0.0.0.0";
  int port = 0;              // 0: any free one
  Logger* logger = nullptr;  // required; outlives the server

  // All metrics as Prometheus' text format; called on the server's thread. Null: no /metrics.
  std::function<std::string()> metrics;

  std::map<std::string, Check> live;   // by name: "heartbeat", ...
  std::map<std::string, Check> ready;  // "synced", ...
};

// What Kubernetes and Prometheus ask the operator, on a thread of its own: it answers while caches
// fill and while the transport's thread is busy.
//
//   /metrics            text
//   /healthz, /readyz   200 "ok", or 500 with the state of every check
//   /readyz/synced      one check
//   ?verbose            every check by name;  ?exclude=synced  all but this one
//
// Source: the paths and texts are those of Kubernetes' own components.
class HealthServer {
 public:
  // Errors: as HttpServer::Start.
  static Result<std::unique_ptr<HealthServer>> Start(HealthServerOptions options);

  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  int port() const;

 private:
  explicit HealthServer(std::unique_ptr<HttpServer> server);

  std::unique_ptr<HttpServer> server_;
};

}  // namespace lockstep::control
