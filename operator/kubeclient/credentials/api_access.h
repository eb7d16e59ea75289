#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "operator/kubeclient/credentials/rotating_credentials.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

// Which API server to talk to, and as whom.
struct ApiAccess {
  ApiEndpoint endpoint;
  CredentialPlan credentials;
  std::string namespace_name;  // where this process, or the kubeconfig's context, lives
  std::string source;          // for people: "in-cluster", "context NAME of FILE"
};

struct ApiAccessOptions {
  std::string kubeconfig;  // a file the user named; empty: look around
  std::string context;     // of the kubeconfig; empty: its current one

  // The value of an environment variable; empty: unset. Required.
  std::function<std::string(const char* name)> environment;

  std::string service_account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// "https://host[:port][/prefix]"; IPv6 in brackets. Errors: kInvalidArgument.
Result<ApiEndpoint> ParseApiUrl(std::string_view url);

// What a pod is given: address in KUBERNETES_SERVICE_HOST and _PORT, token, ca.crt and namespace in
// the service account's folder. Errors: kNotFound (this is no pod), kInvalidArgument.
Result<ApiAccess> InClusterAccess(const ApiAccessOptions& options);

// By the file the user named, else the list in KUBECONFIG, else as a pod, else by ~/.kube/config.
// Source: the order of controller-runtime's client/config.
// Errors: as ReadKubeconfig and InClusterAccess; kNotFound says what was tried.
Result<ApiAccess> FindApiAccess(const ApiAccessOptions& options);

}  // namespace lockstep::control
