#include <optional>

#include "tests/sim/api_server.h"
#include "tests/sim/pod_reader.h"

// What the simulated API server makes of pods before it stores them, or why it does not.
namespace lockstep::control::sim {
namespace {

constexpr const char* kDenied = "admission webhook \"policy.example\" denied the request";

}  // namespace

std::optional<kube::Reply> ApiServer::WebhookRefusal(const Json& pod) {
  if (JobUidOf(pod).empty()) {
    return std::nullopt;
  }
  if (admission.denials > 0) {
    --admission.denials;
    ++admission.denied_count;
    return StatusReply(403, "Forbidden", std::string(kDenied) + ": not today");
  }
  if (admission.bad_requests > 0) {
    --admission.bad_requests;
    ++admission.bad_request_count;
    return StatusReply(400, "BadRequest", std::string(kDenied) + " without explanation");
  }
  return std::nullopt;
}

// Source: Kubernetes, "Limit Ranges": containers that say nothing get the default.
void ApiServer::ApplyLimitRange(const std::string& namespace_name, Json* pod) {
  const auto limit = admission.cpu_default.find(namespace_name);
  if (limit == admission.cpu_default.end()) {
    return;
  }
  for (const char* const kind : {"containers", "initContainers"}) {
    if (!(*pod)["spec"].contains(kind)) {
      continue;
    }
    for (Json& container : (*pod)["spec"][kind]) {
      Json& requests = container["resources"]["requests"];
      if (!requests.contains("cpu")) {
        requests["cpu"] = limit->second;
        admission.raised_count += JobUidOf(*pod).empty() ? 0 : 1;
      }
    }
  }
}

}  // namespace lockstep::control::sim
