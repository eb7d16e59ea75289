#include "common/contract/environment/cluster_shape.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/contract/text/problems.h"
#include "common/json/json.h"

namespace lockstep {
namespace {

constexpr const char* kVariable = "LOCKSTEP_CLUSTER";

RoleTopology ReadRole(const std::string& name,
                      const Json& value,
                      const std::string& path,
                      std::vector<Error>* errors) {
  RoleTopology role;
  const std::optional<Role> known = ParseRole(name);
  ObjectReader reader(value, path, errors);
  if (known.has_value()) {
    role.role = *known;
  } else {
    errors->push_back(Problem(path, Quoted(name), "one of chief, worker, ps, evaluator"));
  }
  role.replicas = static_cast<int>(reader.Int("replicas", 1, kReplicasMax).value_or(1));
  role.processes = static_cast<int>(reader.Int("processes", 1, kProcessesMax).value_or(1));
  reader.Finish();
  return role;
}

}  // namespace

std::size_t EstimateTfConfigBytes(const JobTopology& topology) {
  std::size_t bytes = 0;
  for (const RoleTopology& role : topology.roles) {
    if (role.replicas == 0) {
      continue;  // it has no address
    }
    const TaskId last{role.role, role.replicas - 1};
    const std::size_t address =
        HostOf(topology, last).size() + std::string_view(R"(":2222",)").size();
    bytes += address * static_cast<std::size_t>(role.replicas) *
             static_cast<std::size_t>(role.processes);
  }
  return bytes;
}

std::string EncodeClusterShape(const JobTopology& topology) {
  const auto* const dns = std::get_if<DnsAddressing>(&topology.addressing);
  LOCKSTEP_CHECK(dns != nullptr, "a cluster shape needs DNS addressing");
  Json roles = Json::object();
  for (const RoleTopology& role : topology.roles) {
    roles[std::string(RoleName(role.role))] = {{"replicas", role.replicas},
                                               {"processes", role.processes}};
  }
  Json shape = {{"roles", std::move(roles)}};
  if (!dns->domain.empty()) {
    shape["domain"] = dns->domain;
  }
  if (topology.master_port.has_value()) {
    shape["masterPort"] = *topology.master_port;
  }
  return DumpJson(shape);
}

Result<JobTopology> ParseClusterShape(std::string_view text,
                                      const std::string& job,
                                      const std::string& namespace_name) {
  Result<Json> json = ParseJson(text);
  if (!json.ok()) {
    return std::move(json).error().WithField(kVariable);
  }
  std::vector<Error> errors;
  ObjectReader reader(*json, kVariable, &errors);
  JobTopology topology;
  topology.job = job;
  topology.namespace_name = namespace_name;
  topology.addressing = DnsAddressing{reader.String("domain").value_or("")};
  if (const std::optional<int64_t> port = reader.Int("masterPort", 1, 65535)) {
    topology.master_port = static_cast<int>(*port);
  }
  const Json* const roles = reader.Require("roles", "an object {role: {replicas, processes}}");
  if (roles != nullptr && !roles->is_object()) {
    reader.Fail("roles", DescribeJson(*roles) + " found, expected an object");
  } else if (roles != nullptr) {
    for (const auto& [name, value] : roles->items()) {
      topology.roles.push_back(ReadRole(name, value, reader.PathOf("roles") + "." + name, &errors));
    }
  }
  reader.Finish();
  if (errors.empty()) {
    errors = CheckTopology(topology);
  }
  if (!errors.empty()) {
    return CombineProblems(errors);
  }
  return topology;
}

}  // namespace lockstep
