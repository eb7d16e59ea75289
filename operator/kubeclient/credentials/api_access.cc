#include "operator/kubeclient/credentials/api_access.h"

#include <charconv>
#include <limits>
#include <unistd.h>
#include <utility>

#include "common/base/check.h"
#include "common/base/io/file.h"
#include "operator/kubeclient/credentials/kubeconfig.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kNameBytesMax = 4096;
constexpr uint16_t kHttpPort = 80;
constexpr uint16_t kHttpsPort = 443;

Error BadUrl(std::string_view url, const std::string& why) {
  return Error(ErrorCode::kInvalidArgument, "\"" + std::string(url) + "\" " + why);
}

Result<uint16_t> ParsePort(std::string_view text, std::string_view url) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) {
    return BadUrl(url, "has no valid port");
  }
  return port;
}

std::vector<std::string> SplitPaths(const std::string& list) {
  std::vector<std::string> paths;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) {
      paths.push_back(list.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return paths;
}

}  // namespace

Result<ApiEndpoint> ParseApiUrl(std::string_view url) {
  ApiEndpoint endpoint;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    endpoint.is_tls = false;
  } else {
    return BadUrl(url, "does not begin with https:// or http://");
  }
  endpoint.port = endpoint.is_tls ? kHttpsPort : kHttpPort;
  std::string_view authority = rest.substr(0, rest.find('/'));
  rest.remove_prefix(authority.size());
  while (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  if (authority.find('@') != std::string_view::npos ||
      rest.find_first_of("?# \t\r\n") != std::string_view::npos) {
    return BadUrl("the server's URL", "may have only a host, a port and a path");
  }
  endpoint.base_path = rest;
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) {
      return BadUrl(url, "has no valid host");
    }
    endpoint.host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    endpoint.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (endpoint.host.empty() || (!port.empty() && port.front() != ':')) {
    return BadUrl(url, "has no valid host");
  }
  if (!port.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(endpoint.port, ParsePort(port.substr(1), url));
  }
  return endpoint;
}

Result<ApiAccess> InClusterAccess(const ApiAccessOptions& options) {
  const std::string host = options.environment("KUBERNETES_SERVICE_HOST");
  const std::string port = options.environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return Error(ErrorCode::kNotFound,
                 "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  ApiAccess access;
  access.source = "in-cluster";
  access.endpoint.host = host;
  LOCKSTEP_ASSIGN_OR_RETURN(access.endpoint.port, ParsePort(port, "KUBERNETES_SERVICE_PORT"));
  access.credentials.token_file = options.service_account_folder + "/token";
  access.credentials.ca_file = options.service_account_folder + "/ca.crt";
  auto name = ReadFile(options.service_account_folder + "/namespace", kNameBytesMax);
  if (!name.ok()) {
    return std::move(name).error().Wrap("this pod has no service account");
  }
  access.namespace_name = std::move(name).value();
  access.namespace_name.erase(access.namespace_name.find_last_not_of(" \n\r\t") + 1);
  return access;
}

Result<ApiAccess> FindApiAccess(const ApiAccessOptions& options) {
  LOCKSTEP_CHECK(options.environment != nullptr,
                 "a function that reads the environment is missing");
  if (!options.kubeconfig.empty()) {
    return ReadKubeconfig({options.kubeconfig}, options.context);
  }
  if (const std::string list = options.environment("KUBECONFIG"); !list.empty()) {
    return ReadKubeconfig(SplitPaths(list), options.context);
  }
  if (!options.environment("KUBERNETES_SERVICE_HOST").empty()) {
    return InClusterAccess(options);
  }
  const std::string file = options.environment("HOME") + "/.kube/config";
  if (::access(file.c_str(), R_OK) == 0) {
    return ReadKubeconfig({file}, options.context);
  }
  return Error(ErrorCode::kNotFound,
               "no cluster found: --kubeconfig and KUBECONFIG are not set, this process is not in "
               "a pod, and "
               "there is no " +
                   file);
}

}  // namespace lockstep::control
