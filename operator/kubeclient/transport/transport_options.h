#pragma once

#include <chrono>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/kubeclient/transport/credentials.h"
#include "operator/kubeclient/transport/server_clock.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

// Which library carries the calls; both keep the same contract.
enum class TransportKind { kBeast, kCpprest };

struct TransportOptions {
  ApiEndpoint endpoint;
  Credentials* credentials = nullptr;   // required; outlives the transport
  Logger* logger = nullptr;             // required; outlives the transport
  ServerClock* server_clock = nullptr;  // told of all replies; outlives the transport; null: nobody
  std::string user_agent = "lockstep";

  // Open connections of the shared lane. Choice: what API priority and fairness gives one client
  // of a small cluster; more would queue there.
  int connections_max = 16;

  // API servers drop idle connections after 90 s: ours go first, so that a call seldom meets one
  // that is just closing.
  Duration connection_idle_max = std::chrono::seconds(45);

  // Connections are renewed so that load spreads over servers that were added; each lives between
  // 80 % and 120 % of this.
  Duration connection_age_max = std::chrono::minutes(10);

  // How often idle connections and certificates are looked at. Choice: a rotated certificate is in
  // use within this time, for nothing measurable.
  Duration sweep_period = std::chrono::seconds(5);
};

}  // namespace lockstep::control
