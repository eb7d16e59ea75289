#include "operator/api/job/job_topology.h"

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "common/contract/environment/environment.h"

namespace lockstep::control {
namespace {

// MASTER_PORT of the template, which validation has found to be a port.
std::optional<int> MasterPortOf(const RoleSpec& role) {
  const auto found = role.pod.env.find(env::kTorchMasterPort);
  if (found == role.pod.env.end()) {
    return std::nullopt;
  }
  int port = 0;
  const std::string& text = found->second;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  return problem == std::errc() ? std::optional(port) : std::nullopt;
}

}  // namespace

JobTopology TopologyOf(const TrainingJob& job, const Addressing& addressing) {
  JobTopology topology;
  topology.job = job.metadata.name;
  topology.namespace_name = job.metadata.namespace_name;
  topology.addressing = addressing;
  for (const RoleSpec& role : job.spec.roles) {
    topology.roles.push_back(
        {role.name, static_cast<int>(role.replicas), static_cast<int>(role.processes)});
    if (const std::optional<int> port = MasterPortOf(role)) {
      topology.master_port = port;
    }
  }
  return topology;
}

}  // namespace lockstep::control
