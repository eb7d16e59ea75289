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
  if (command.launcher != Launcher::kTorchrun) {
    if (!per_pod.empty() && per_pod != "1") {
      conversion->notes.push_back(
          {field,
           "not kept for " + pod->container_path +
               (command.may_launch
                    ? ": with the program in torchrun's place, set the role's processes"
                    : ": torchrun would heed it, and it does not start that command; see "
                      "processes")});
    }
    if (gpus > 1) {
      (*role)["processes"] = 1;  // which drives them all, as before
    }
    return;
  }
  const bool is_in_command = !command.processes_per_pod.empty();
  const std::string& text = is_in_command ? command.processes_per_pod : per_pod;
  if (is_in_command && !per_pod.empty() && per_pod != text) {
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
  conversion->notes.push_back(
      {is_in_command ? pod->container_path + ".command" : field,
       (text.empty() ? "not there" : "\"" + text + "\"") +
           ", which meant as many processes as the node has cores: a TrainingJob has one; set the "
           "role's processes for more"});
}

}  // namespace lockstep::control
