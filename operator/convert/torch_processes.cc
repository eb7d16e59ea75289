#include "operator/convert/torch_processes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "common/base/name_list.h"
#include "operator/api/fields.h"
#include "operator/convert/operator_variables.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

// Devices of a name of which PyTorch finds as many as a pod asks for.
struct TorchDevice {
  std::string_view resource;
  std::string_view word;  // what --nproc-per-node calls them
};

// Source: the device plugins of their makers.
constexpr std::array<TorchDevice, 6> kTorchDevices = {{{kGpuResource, "gpu"},
                                                       {"amd.com/gpu", "gpu"},
                                                       {"gpu.intel.com/i915", "xpu"},
                                                       {"gpu.intel.com/xe", "xpu"},
                                                       {"habana.ai/gaudi", "hpu"},
                                                       {"huawei.com/Ascend910", "npu"}}};

// Of parts of one GPU CUDA shows a process one. Source: NVIDIA's guide to MIG.
constexpr std::string_view kPartOfGpu = "nvidia.com/mig-";

// The devices that a launcher counts in a pod.
struct CountedDevices {
  int64_t count = 0;
  bool has_default = false;  // a TrainingJob that is told nothing has as many processes
  // "2 of rdma/hca", "claim gpu": nobody knows how many it finds of these.
  std::vector<std::string> unknown = {};
};

// `word`: those of one sort; empty or "auto": all.
CountedDevices CountDevices(const ConvertedPod& pod, std::string_view word) {
  CountedDevices counted;
  bool has_part = false;
  for (const auto& [name, count] : pod.devices()) {
    const auto* const known = std::find_if(
        kTorchDevices.begin(), kTorchDevices.end(), [&resource = name](const TorchDevice& device) {
          return device.resource == resource;
        });
    const bool is_part = name.starts_with(kPartOfGpu);
    if (known == kTorchDevices.end() && !is_part) {
      counted.unknown.push_back(std::to_string(count) + " of " + name);
    } else if (word.empty() || word == "auto" || word == (is_part ? "gpu" : known->word)) {
      has_part = has_part || is_part;
      counted.count += is_part ? 0 : count;
    }
  }
  for (const std::string& claim : pod.claims()) {
    counted.unknown.push_back("claim " + claim);
  }
  counted.has_default = counted.count > 0 && counted.count == pod.gpu_count();
  counted.count = counted.count == 0 && has_part ? 1 : counted.count;
  return counted;
}

// Whether its launcher, accelerate, started one process in it whatever it was told.
bool HasOneProcess(const LaunchCommand& command, const ConvertedPod& pod) {
  if (command.pods_with_several != PodsWithSeveral::kThoseWithDevices) {
    return command.pods_with_several == PodsWithSeveral::kNone;
  }
  const CountedDevices devices = CountDevices(pod, "");
  return devices.count == 1 || (devices.count == 0 && devices.unknown.empty());
}

// Why what `field` says of a pod's processes means nothing to what its command starts.
std::string WhyNotHeeded(const LaunchCommand& command) {
  if (command.may_launch) {
    return ": with the program in the launcher's place, set the role's processes";
  }
  if (IsTorchLauncher(command.launcher)) {
    return ": its command starts " + std::string(NameOf(command.launcher)) +
           ", whose own options say how many, or else the devices; see processes";
  }
  if (MayStartUnseen(command.program)) {
    return ": whether its command starts torchrun, which would heed it, cannot be seen from this "
           "file; with the program as the command, set the role's processes";
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
  const bool has_one_device =
      CountDevices(*pod, "").count == 1 && command.pods_with_several != PodsWithSeveral::kNone;
  if (told == "1" || (told.empty() && has_one_device)) {
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
std::string WhyUnlike(const std::string& text, bool is_torchrun, const CountedDevices& devices) {
  if (HasReference(text)) {
    return "\"" + text +
           "\": how many processes that is cannot be told from this file; a TrainingJob has " +
           (devices.has_default ? "one for each GPU" : "one in each pod") +
           ": set the role's processes";
  }
  const std::string quoted = text.empty() ? "not there" : "\"" + text + "\"";
  if (text != "cpu" && !devices.unknown.empty()) {
    return quoted +
           ", which meant a process for each device that PyTorch finds: how many it finds " +
           "among " + NameList(devices.unknown) +
           " cannot be told; a TrainingJob has one process in each pod: set the role's processes " +
           "for more";
  }
  if (is_torchrun && text == "gpu") {
    return "\"gpu\" found where no GPU is asked for, which torchrun refuses unless it finds one: a "
           "TrainingJob has one process in each pod, and shows it no GPU (NVIDIA_VISIBLE_DEVICES="
           "none); ask for them in resources.limits";
  }
  if (text.ends_with("pu") && text != "cpu") {
    return quoted +
           ", which meant a process for each of these devices: a TrainingJob has one; set the "
           "role's processes for more";
  }
  return quoted +
         ", which meant as many processes as the node has cores: a TrainingJob has one; set the "
         "role's processes for more";
}

// As many as `text` says, which stands at `where`: empty of a launcher that is told nothing.
void SetProcessesAsTold(const std::string& text,
                        bool is_torchrun,
                        const std::string& where,
                        ConvertedPod* pod,
                        Json* role,
                        Conversion* conversion) {
  const int64_t told = ProcessCountOf(text);
  const bool is_unknown = HasReference(text);
  const CountedDevices devices = CountDevices(*pod, is_unknown ? "" : text);
  const bool is_default = told == 0 && devices.has_default;
  if (!is_default) {
    pod->origins.push_back({"processes", where});
    const int64_t by_devices = is_unknown ? 1 : std::max<int64_t>(devices.count, 1);
    (*role)["processes"] = told > 0 ? told : by_devices;
  }
  // Others than torchrun start one where they are told nothing and find nothing.
  const bool is_met = told > 0 || (!is_unknown && devices.count > 0) ||
                      (!is_torchrun && text.empty() && devices.unknown.empty());
  if (!is_met) {
    conversion->notes.push_back({where, WhyUnlike(text, is_torchrun, devices)});
  }
}

// Whether the launcher knew of no other machine: by default torchrun, and accelerate that starts
// several processes by it, know what an operator tells them.
bool IsAlone(const LaunchCommand& command, const ConvertedPod& pod) {
  const bool is_for_one = command.machines.has_value() && command.machines->max == 1;
  switch (command.launcher) {
    case Launcher::kTorchrun:
      return is_for_one || (!command.names_machines && !command.is_told_by_operator);
    case Launcher::kAccelerate:
      return (is_for_one || !command.machines.has_value()) &&
             (HasOneProcess(command, pod) || !command.is_told_by_operator);
    case Launcher::kDeepspeed:
      return !command.machines.has_value() && !command.names_machines;
    case Launcher::kNone:
    case Launcher::kMpirun:
    case Launcher::kHorovodrun:
      break;
  }
  return false;
}

// "--nnodes 1:4", as the launcher was told.
std::string TextOf(const MachineRange& machines, Launcher launcher) {
  const char* const option = launcher == Launcher::kTorchrun     ? "--nnodes "
                             : launcher == Launcher::kAccelerate ? "--num_machines "
                                                                 : "--num_nodes ";
  const std::string max =
      machines.max > machines.min ? ":" + std::to_string(machines.max) : std::string();
  return option + std::to_string(machines.min) + max;
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
  const bool is_torchrun = command.launcher == Launcher::kTorchrun;
  if (!is_torchrun && !per_pod.empty() && per_pod != "1") {
    conversion->notes.push_back(
        {field, "not kept for " + pod->container_path + WhyNotHeeded(command)});
  }
  if (!IsTorchLauncher(command.launcher)) {
    if (pod->gpu_count() > 1) {
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
  SetProcessesAsTold(text, is_torchrun, where, pod, role, conversion);
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
         RanksAskedFor(*command.process_count) + " in all; the job has " + std::to_string(ranks) +
             ", " + command.processes_per_pod +
             " in each of its pods: set the role's processes for another number"});
  }
}

void NoteMachineCount(const LaunchCommand& command,
                      const ConvertedPod& pod,
                      int64_t pods,
                      Conversion* conversion,
                      const std::string& alone) {
  if (!IsTorchLauncher(command.launcher)) {
    return;
  }
  const auto note = [&](const std::string& text) {
    conversion->notes.push_back({command.path, text});
  };
  const std::string count = std::to_string(pods);
  const MachineRange machines = command.machines.value_or(MachineRange{pods, pods});
  if (pods > 1 && IsAlone(command, pod)) {
    note(std::string(NameOf(command.launcher)) +
         (command.launcher == Launcher::kDeepspeed ? " without a hostfile" : " for one node") +
         " trained " + alone + ": the job's " + count +
         " pods train together, one model; for one pod that trains alone set replicas to 1");
  } else if (!command.unknown_machines.empty()) {
    note(command.unknown_machines +
         ": how many nodes that is cannot be told from this file; the job trains on all of its "
         "pods, " +
         count);
  } else if (pods < machines.min || pods > machines.max) {
    note(TextOf(machines, command.launcher) +
         " was asked for; the job trains on all of its pods, " + count +
         ": set the role's replicas for another number");
  } else if (machines.min < machines.max) {
    note(TextOf(machines, command.launcher) + ": the job trains on all of its pods, " + count +
         ", and keeps its size until somebody scales it");
  }
}

}  // namespace lockstep::control
