#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kubeclient/kube/request.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

// "host:port", with brackets where the host is an IPv6 address.
std::string Authority(const ApiEndpoint& endpoint);

// The request as HTTP/1.1 puts it on the wire. `headers` come from outside and are known to hold no
// line ends (checked): nobody can smuggle a header in.
std::string RequestText(const ApiEndpoint& endpoint,
                        const kube::Request& request,
                        const std::string& user_agent,
                        const std::vector<std::pair<std::string, std::string>>& headers);

// The value of a Retry-After header in seconds; null for a date or anything else.
std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view text);

}  // namespace lockstep::control
