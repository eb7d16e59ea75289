#include "operator/convert/torch_processes.h"

#include <algorithm>
#include <cctype>

namespace lockstep::control {
int64_t ProcessCountOf(const std::string& text) {
  constexpr std::size_t kDigitsMax = 4;
  const bool is_count = !text.empty() && text.size() <= kDigitsMax &&
                        std::all_of(text.begin(), text.end(), [](unsigned char letter) {
                          return std::isdigit(letter) != 0;
                        });
  return is_count ? std::stoll(text) : 0;
}

void SetTorchProcesses(const LaunchCommand& command,
                       const std::string& per_pod,
                       const std::string& field,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion) {
  const int64_t gpus = pod->gpu_count();
  const bool is_torchrun = command.launcher == Launcher::kTorchrun;
  if (!is_torchrun && !per_pod.empty() && per_pod != "1") {
    conversion->notes.push_back(
        {field,
         "not kept for " + pod->container_path +
             (command.may_launch
                  ? ": with the program in the launcher's place, set the role's processes"
                  : ": torchrun would heed it, and it does not start that command; see "
                    "processes")});
  }
  if (!IsTorchLauncher(command.launcher)) {
    if (gpus > 1) {
      (*role)["processes"] = 1;  // which drives them all, as before
    }
    return;
  }
  const bool is_in_command = !command.processes_per_pod.empty();
  const std::string text = is_in_command ? command.processes_per_pod : is_torchrun ? per_pod : "";
  if (is_torchrun && is_in_command && !per_pod.empty() && per_pod != text) {
    conversion->notes.push_back(
        {field, "not kept for " + pod->container_path + ": its command says " + text});
  }
  const bool is_per_gpu = text.empty() || text == "auto" || text == "gpu";
  if (is_per_gpu && gpus > 0) {
    return;  // one for each GPU is the default
  }
  pod->origins.push_back({"processes", is_in_command ? pod->container_path + ".command" : field});
  if (const int64_t count = ProcessCountOf(text); count > 0) {
    (*role)["processes"] = count;
    return;
  }
  (*role)["processes"] = 1;
  if (!is_torchrun && text.empty()) {
    return;  // as the launcher would
  }
  conversion->notes.push_back(
      {is_in_command ? pod->container_path + ".command" : field,
       (text.empty() ? "not there" : "\"" + text + "\"") +
           ", which meant as many processes as the node has cores: a TrainingJob has one; set the "
           "role's processes for more"});
}

int64_t RanksOf(const Json& role, const ConvertedPod& pod) {
  const int64_t by_default = std::max<int64_t>(pod.gpu_count(), 1);
  return role.at("replicas").get<int64_t>() * role.value("processes", by_default);
}

void NoteRankCount(const LaunchCommand& command,
                   int64_t ranks,
                   const ConvertedPod& pod,
                   Conversion* conversion) {
  if (IsTorchLauncher(command.launcher) && command.process_count.has_value() &&
      *command.process_count != ranks) {
    conversion->notes.push_back(
        {pod.container_path + ".command",
         std::to_string(*command.process_count) + " processes were asked for in all; the job has " +
             std::to_string(ranks) + ", " + command.processes_per_pod +
             " in each of its pods: set the role's processes for another number"});
  }
}

}  // namespace lockstep::control
