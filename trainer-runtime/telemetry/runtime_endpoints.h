#pragma once

#include <functional>
#include <string>

#include "common/base/log.h"
#include "common/base/strong_id.h"
#include "common/contract/status/control_message.h"
#include "common/http/http_server.h"
#include "trainer-runtime/telemetry/metrics.h"
#include "trainer-runtime/telemetry/status_board.h"

namespace lockstep::runtime {

struct RuntimeEndpointsOptions {
  std::string job_uid;
  std::string pod;
  Attempt attempt;
  std::string job_key;          // empty: /status and /control refuse everybody
  int64_t control_counter = 0;  // messages up to this one are old; see WorkerEnvironment
  // Everything below outlives the server that serves the routes.
  StatusBoard* board = nullptr;        // required
  Metrics* metrics = nullptr;          // required
  Logger* logger = nullptr;            // required
  bool tells_of_first_status = false;  // logs when somebody has asked for the first time
  // Called on the server's thread for each accepted message: must return at once.
  std::function<void(const ControlMessage&)> on_control;
  // The page in place of that of `metrics`, unless it is empty. Called likewise; may be null.
  std::function<std::string()> metrics_page;
  // What follows on either page: of the pod and not of its processes. Called likewise; may be null.
  std::function<std::string()> pod_metrics;
};

// What a pod answers to the operator and to scrapers:
//   GET  /healthz   200 while the process serves; 503 once its phase is failed
//   GET  /metrics   Prometheus text
//   GET  /status    the status document, for holders of the job's token ; else 401, whose
//                   error is kStatusTokenExpired where only the token's time is wrong
//   POST /control   a signed message: 200 accepted, 400 malformed, 401 bad signature,
//                   409 old counter, or another job or attempt; each is counted
HttpRoutes MakeRuntimeRoutes(RuntimeEndpointsOptions options);

}  // namespace lockstep::runtime
