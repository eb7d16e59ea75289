#include "operator/api/launch_remarks.h"

#include <algorithm>
#include <string_view>

#include "operator/api/pod_template.h"

namespace lockstep::control {
namespace {

// All words of the command, those of a script in it among them, "--nnodes=1" as two.
std::vector<std::string> ScriptWords(const PodTemplate& pod) {
  std::vector<std::string> words;
  std::vector<std::string> parts = pod.command;
  parts.insert(parts.end(), pod.args.begin(), pod.args.end());
  for (const std::string& part : parts) {
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

// What keeps torchrun in one pod: "--standalone"; empty: nothing does.
std::string WhatKeepsAlone(const PodTemplate& pod) {
  const std::vector<std::string> words = ScriptWords(pod);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--standalone") {
      return words[i];
    }
    const bool is_count = words[i] == "--nnodes" && i + 1 < words.size();
    if (is_count && (words[i + 1] == "1" || words[i + 1] == "1:1")) {
      return words[i] + "=" + words[i + 1];
    }
  }
  const auto variable = pod.env.find("PET_NNODES");
  const bool is_one = variable != pod.env.end() && variable->second == "1";
  return is_one ? "PET_NNODES=1" : "";
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
    const std::string kept = WhatKeepsAlone(role.pod);
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

}  // namespace lockstep::control
