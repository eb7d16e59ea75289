#include "operator/convert/torch_processes.h"

#include <algorithm>

#include "operator/api/fields.h"

namespace lockstep::control {
namespace {

// Whether its launcher, accelerate, started one process in it whatever it was told.
bool HasOneProcess(const LaunchCommand& command, const ConvertedPod& pod) {
  return command.pods_with_several == PodsWithSeveral::kNone ||
         (command.pods_with_several == PodsWithSeveral::kThoseWithDevices &&
          !pod.has_several_devices());
}

// Why what `field` says of a pod's processes means nothing to what its command starts.
std::string WhyNotHeeded(const LaunchCommand& command) {
  if (command.may_launch) {
    return ": with the program in the launcher's place, set the role's processes";
  }
  if (IsTorchLauncher(command.launcher)) {
    return ": its command starts " + std::string(NameOf(command.launcher)) +
           ", whose own options say how many, or else the GPUs; see processes";
  }
  return ": torchrun would heed it, and it does not start that command; see processes";
}

void SetOneProcess(const LaunchCommand& command,
                   ConvertedPod* pod,
                   Json* role,
                   Conversion* conversion) {
  (*role)["processes"] = 1;
  pod->origins.push_back({"processes", command.path});
  const std::string& told = command.processes_per_pod;
  const bool has_one_gpu =
      pod->gpu_count() == 1 && command.pods_with_several != PodsWithSeveral::kNone;
  if (told == "1" || (told.empty() && has_one_gpu)) {
    return;
  }
  const std::string started =
      told.empty() ? "accelerate launch started one process in each pod"
                   : "told of " + told + " processes a pod, accelerate launch started one";
  conversion->notes.push_back(
      {command.path,
       started +
           ", and so does the job: it starts several with --multi_gpu or where a pod has several "
           "GPUs, and never with --cpu; set the role's processes for more"});
}

// Why the pod does not get the processes that `text` asked for.
std::string WhyUnlike(const std::string& text, bool is_torchrun, int64_t gpus) {
  if (HasReference(text)) {
    return "\"" + text +
           "\": how many processes that is cannot be told from this file; a TrainingJob has " +
           (gpus > 0 ? "one for each GPU" : "one in each pod") + ": set the role's processes";
  }
  if (is_torchrun && text == "gpu") {
    return "\"gpu\" found where no GPU is asked for, which torchrun refuses unless it finds one: a "
           "TrainingJob has one process in each pod; set the role's processes for more";
  }
  if (text.ends_with("pu") && text != "cpu") {
    return "\"" + text +
           "\", which meant a process for each of these devices: a TrainingJob has one; set the "
           "role's processes for more";
  }
  return (text.empty() ? "not there" : "\"" + text + "\"") +
         ", which meant as many processes as the node has cores: a TrainingJob has one; set the "
         "role's processes for more";
}

}  // namespace

void SetTorchProcesses(const LaunchCommand& command,
                       const std::string& per_pod,
                       const std::string& field,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion) {
  if (!command.problem.empty()) {
    return;
  }
  const int64_t gpus = pod->gpu_count();
  const bool is_torchrun = command.launcher == Launcher::kTorchrun;
  if (!is_torchrun && !per_pod.empty() && per_pod != "1") {
    conversion->notes.push_back(
        {field, "not kept for " + pod->container_path + WhyNotHeeded(command)});
  }
  if (!IsTorchLauncher(command.launcher)) {
    if (gpus > 1) {
      (*role)["processes"] = 1;  // which drives them all, as before
    }
    return;
  }
  if (HasOneProcess(command, *pod)) {
    SetOneProcess(command, pod, role, conversion);
    return;
  }
  const bool is_in_command = !command.processes_per_pod.empty();
  const std::string text = is_in_command ? command.processes_per_pod : is_torchrun ? per_pod : "";
  if (is_torchrun && is_in_command && !per_pod.empty() && per_pod != text) {
    conversion->notes.push_back(
        {field, "not kept for " + pod->container_path + ": its command says " + text});
  }
  const std::string& where = is_in_command ? command.path : field;
  if (!is_in_command && !text.empty() && !IsCountOfTorchrun(text)) {
    AddError(&conversion->errors,
             field,
             "\"" + text +
                 "\" found, expected a number from 1 to 9999, auto, gpu or cpu, as torchrun does");
    return;
  }
  const bool is_unknown = HasReference(text);
  const bool is_per_gpu = text.empty() || text == "auto" || text == "gpu";
  if (is_per_gpu && gpus > 0) {
    return;  // one for each GPU is the default
  }
  pod->origins.push_back({"processes", where});
  if (const int64_t count = ProcessCountOf(text); count > 0) {
    (*role)["processes"] = count;
    return;
  }
  if (!is_unknown || gpus == 0) {
    (*role)["processes"] = 1;
  }
  if (is_torchrun || !text.empty()) {  // others that are told nothing start one, too
    conversion->notes.push_back({where, WhyUnlike(text, is_torchrun, gpus)});
  }
}

int64_t RanksOf(const Json& role, const ConvertedPod& pod) {
  const int64_t by_default = std::max<int64_t>(pod.gpu_count(), 1);
  return role.at("replicas").get<int64_t>() * role.value("processes", by_default);
}

void NoteRankCount(const LaunchCommand& command,
                   int64_t ranks,
                   const ConvertedPod& pod,
                   Conversion* conversion) {
  const bool is_noted = HasOneProcess(command, pod) && command.processes_per_pod != "1";
  if (IsTorchLauncher(command.launcher) && command.process_count.has_value() &&
      *command.process_count != ranks && !is_noted) {
    conversion->notes.push_back(
        {command.path,
         std::to_string(*command.process_count) + " processes were asked for in all; the job has " +
             std::to_string(ranks) + ", " + command.processes_per_pod +
             " in each of its pods: set the role's processes for another number"});
  }
}

void NoteMachineCount(const LaunchCommand& command, int64_t pods, Conversion* conversion) {
  const bool is_torchrun = command.launcher == Launcher::kTorchrun;
  if (!is_torchrun && command.launcher != Launcher::kDeepspeed) {
    return;
  }
  const std::string count = std::to_string(pods);
  const bool is_for_itself =
      is_torchrun ? command.machine_count == 1 : !command.machine_count && !command.names_machines;
  if (is_for_itself && pods > 1) {
    conversion->notes.push_back(
        {command.path,
         std::string(is_torchrun ? "torchrun for one node" : "deepspeed without a hostfile") +
             " trained in each pod for itself: the job's " + count +
             " pods train together, one model; for one pod that trains alone set replicas to 1"});
  } else if (command.machine_count.value_or(pods) != pods) {
    conversion->notes.push_back({command.path,
                                 (is_torchrun ? "--nnodes " : "--num_nodes ") +
                                     std::to_string(*command.machine_count) +
                                     " was asked for; the job trains on all of its pods, " + count +
                                     ": set the role's replicas for another number"});
  }
}

}  // namespace lockstep::control
