#include "operator/reconcile/pods/status_server.h"

#include <algorithm>

#include "common/contract/environment/topology.h"
#include "operator/api/fields/json_edit.h"

namespace lockstep::control {
namespace {

// A trainer that is frozen as a whole is seen by its kubelet alone. Choice: two minutes, so that no
// outage of the node's network or of its processor that a training survives is taken for its end.
constexpr int kLivenessSeconds = 10;
constexpr int kLivenessFailures = 12;
constexpr int kLivenessTimeoutSeconds = 5;

bool IsStatusPort(const Json& port) {
  const Json* const number = FindField(port, "containerPort");
  return number != nullptr && *number == kStatusPort;
}

}  // namespace

void DeclareStatusServer(bool is_probed, Json* container) {
  Json* const ports = ListAt(container, "ports");
  if (ports != nullptr && !std::any_of(ports->begin(), ports->end(), IsStatusPort)) {
    ports->push_back({{"containerPort", kStatusPort}, {"protocol", "TCP"}});
  }
  if (is_probed) {
    SetDefault(container,
               "livenessProbe",
               {{"httpGet", {{"path", "/healthz"}, {"port", kStatusPort}}},
                {"periodSeconds", kLivenessSeconds},
                {"timeoutSeconds", kLivenessTimeoutSeconds},
                {"failureThreshold", kLivenessFailures}});
  }
}

}  // namespace lockstep::control
