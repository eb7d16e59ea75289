#include "operator/api/launch_remarks.h"

#include <algorithm>

#include "operator/api/pod_template.h"

namespace lockstep::control {
namespace {

// All words of the command, those of a script in it among them, "--nnodes=1" as two.
std::vector<std::string> ScriptWords(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  for (const std::string& part : command) {
    std::string_view left = part;
    while (!left.empty()) {
      const std::size_t end = std::min(left.find_first_of(" \t\r\n\\=\"'"), left.size());
      if (end > 0) {
        words.emplace_back(left.substr(0, end));
      }
      left = left.substr(std::min(end + 1, left.size()));
    }
  }
  return words;
}

bool IsOne(const std::string& machines) {
  return machines == "1" || machines == "1:1";
}

// What keeps torchrun in one pod: "--standalone"; empty: nothing does.
std::string WhatKeepsAlone(const std::vector<std::string>& command, const RoleSpec& role) {
  const std::vector<std::string> words = ScriptWords(command);
  if (std::find(words.begin(), words.end(), "--standalone") != words.end()) {
    return "--standalone";
  }
  const std::string machines = TorchrunOption(command, "--nnodes");
  if (IsOne(machines)) {
    return "--nnodes=" + machines;
  }
  const auto variable = role.pod.env.find("PET_NNODES");
  if (machines.empty() && variable != role.pod.env.end() && IsOne(variable->second)) {
    return "PET_NNODES=" + variable->second;
  }
  const std::string backend = TorchrunOption(command, "--rdzv_backend");
  if (!backend.empty() && backend != "static" &&
      TorchrunOption(command, "--rdzv_endpoint").empty() &&
      role.pod.env.count("PET_RDZV_ENDPOINT") == 0) {
    return "--rdzv-backend=" + backend + " and no --rdzv-endpoint";
  }
  return machines.empty() && role.launcher == ProcessLauncher::kLockstep ? "launcher: Lockstep"
                                                                         : "";
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
    std::vector<std::string> command = role.pod.command;
    command.insert(command.end(), role.pod.args.begin(), role.pod.args.end());
    const std::string kept = WhatKeepsAlone(command, role);
    if (pods < 2 || !IsRank(role.name) || kept.empty() || !NamesTorchrun(command)) {
      continue;
    }
    remarks.push_back({"spec.roles[" + std::to_string(i) + "].template." +
                           std::string(kContainerPath) + ".command",
                       "torchrun with " + kept + " does not join the " + std::to_string(pods) +
                           " pods of the job; remove it, and Lockstep tells torchrun of them"});
  }
  return remarks;
}

std::string TorchrunOption(const std::vector<std::string>& command, std::string_view name) {
  const std::vector<std::string> words = ScriptWords(command);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    std::string word = words[i];
    if (word.starts_with("--")) {
      std::replace(word.begin() + 2, word.end(), '-', '_');
    }
    if (word == name) {
      return words[i + 1];
    }
  }
  return "";
}

}  // namespace lockstep::control
