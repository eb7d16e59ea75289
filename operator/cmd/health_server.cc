#include "operator/cmd/health_server.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/http/http_server.h"

namespace lockstep::control {
namespace {

using Checks = std::map<std::string, HealthServerOptions::Check>;

constexpr const char* kText = "text/plain; charset=utf-8";

struct Query {
  bool is_verbose = false;
  std::set<std::string, std::less<>> excluded;
};

Query ParseQuery(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::string_view name = part.substr(0, part.find('='));
    if (name == "verbose") {
      query.is_verbose = true;
    } else if (name == "exclude" && part.size() > name.size()) {
      query.excluded.emplace(part.substr(name.size() + 1));
    }
  }
  return query;
}

HttpServerResponse RunChecks(const std::string& path, const Checks& checks, const Query& query) {
  std::string text;
  bool is_ok = true;
  for (const auto& [name, check] : checks) {
    if (query.excluded.contains(name)) {
      text += "[+]" + name + " excluded: ok\n";
      continue;
    }
    const Status status = check();
    is_ok = is_ok && status.ok();
    text += status.ok() ? "[+]" + name + " ok\n"
                        : "[-]" + name + " failed: " + status.error().ToString() + "\n";
  }
  if (!is_ok) {
    return {500, kText, text + path + " check failed\n"};
  }
  return {200, kText, query.is_verbose ? text + path + " check passed\n" : "ok"};
}

// "/readyz" and one path below it for each check.
void AddChecks(const std::string& name, const Checks& checks, HttpRoutes* routes) {
  (*routes)["/" + name]["GET"] = [name, checks](const HttpServerRequest& request) {
    return RunChecks(name, checks, ParseQuery(request.query));
  };
  for (const auto& [one, check] : checks) {
    (*routes)["/" + name + "/" + one]["GET"] =
        [name = name + "/" + one, only = Checks{{one, check}}](const HttpServerRequest& request) {
          return RunChecks(name, only, ParseQuery(request.query));
        };
  }
}

}  // namespace

HealthServer::HealthServer(std::unique_ptr<HttpServer> server) : server_(std::move(server)) {}

HealthServer::~HealthServer() = default;

Result<std::unique_ptr<HealthServer>> HealthServer::Start(HealthServerOptions options) {
  LOCKSTEP_CHECK(options.logger != nullptr, "the health server needs a logger");
  HttpRoutes routes;
  AddChecks("healthz", options.live, &routes);
  AddChecks("readyz", options.ready, &routes);
  if (options.metrics != nullptr) {
    routes["/metrics"]["GET"] = [metrics = options.metrics](const HttpServerRequest&) {
      return HttpServerResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics()};
    };
  }
  HttpServerOptions server;
  server.bind_address = options.bind_address;
  server.port = options.port;
  server.logger = options.logger;
  LOCKSTEP_ASSIGN_OR_RETURN(auto started, HttpServer::Start(server, std::move(routes)));
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(started)));
}

int HealthServer::port() const {
  return server_->port();
}

}  // namespace lockstep::control
