#include "operator/api/rules/launch_remarks.h"

#include <utility>

#include "common/contract/command/launcher.h"
#include "common/contract/environment/torch_variables.h"
#include "operator/api/job/pod_template.h"
#include "operator/api/rules/launch_rules.h"

namespace lockstep::control {
namespace {

bool IsOne(const std::string& machines) {
  return machines == "1" || machines == "1:1";
}

// What keeps a torchrun in one pod: "--standalone"; empty: nothing does.
std::string WhatKeepsAlone(const TorchrunCall& call, const RoleSpec& role) {
  if (call.options.contains("--standalone")) {
    return "--standalone";
  }
  const std::string machines = call.Option("--nnodes");
  if (IsOne(machines)) {
    return "--nnodes=" + machines;
  }
  const auto variable = role.pod.env.find("PET_NNODES");
  if (machines.empty() && variable != role.pod.env.end() && IsOne(variable->second)) {
    return "PET_NNODES=" + variable->second;
  }
  const std::string backend = call.Option("--rdzv_backend");
  if (!backend.empty() && backend != "static" && backend != kOwnTorchrunRendezvous &&
      call.Option("--rdzv_endpoint").empty() && role.pod.env.count("PET_RDZV_ENDPOINT") == 0) {
    return "--rdzv-backend=" + backend + " and no --rdzv-endpoint";
  }
  return machines.empty() && role.launcher == ProcessLauncher::kLockstep ? "launcher: Lockstep"
                                                                         : "";
}

// The same of the torchruns that the role's command starts.
std::string WhatKeepsAlone(const RoleSpec& role) {
  std::vector<std::string> command = role.pod.command;
  command.insert(command.end(), role.pod.args.begin(), role.pod.args.end());
  std::string kept;
  for (const TorchrunCall& call : TorchrunCalls(command)) {
    kept = kept.empty() ? WhatKeepsAlone(call, role) : kept;
  }
  return kept;
}

}  // namespace

std::vector<LaunchRemark> RemarksOn(const TrainingJob& job) {
  int64_t pods = 0;
  for (const RoleSpec& role : job.spec.roles) {
    pods += IsRank(role.name) ? role.replicas : 0;
  }
  std::vector<LaunchRemark> remarks;
  for (std::size_t i = 0; i < job.spec.roles.size(); ++i) {
    const RoleSpec& role = job.spec.roles[i];
    if (!IsRank(role.name)) {
      continue;
    }
    const std::string container =
        "spec.roles[" + std::to_string(i) + "].template." + std::string(kContainerPath);
    for (std::string& objection :
         ObjectionsToTorchVariables(role.pod.env, job.spec.recovery.hung_after)) {
      remarks.push_back({container + ".env", std::move(objection)});
    }
    const std::string kept = WhatKeepsAlone(role);
    if (pods < 2 || kept.empty()) {
      continue;
    }
    remarks.push_back({container + ".command",
                       "torchrun with " + kept + " does not join the " + std::to_string(pods) +
                           " pods of the job; remove this option, so that Lockstep tells torchrun "
                           "about the pods"});
  }
  return remarks;
}

}  // namespace lockstep::control
