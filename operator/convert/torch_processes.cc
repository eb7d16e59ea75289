#include "operator/convert/torch_processes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "common/contract/executed_commands.h"
#include "common/contract/launcher.h"
#include "operator/api/fields.h"
#include "operator/convert/launch_variables.h"
#include "operator/convert/variable_references.h"

namespace lockstep::control {
namespace {

constexpr const char* kCountVariable = "PET_NPROC_PER_NODE";

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// What torchrun takes for how many processes a pod has. The last words are those of makers of
// devices that torch knows by their own names.
bool IsCountOfTorchrun(const std::string& text) {
  constexpr std::array<std::string_view, 6> kWords = {"auto", "gpu", "cpu", "xpu", "hpu", "npu"};
  return ProcessCountOf(text) > 0 || std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

bool HandsOnRank(const std::string& text) {
  for (const std::string_view name : {"RANK", "WORLD_SIZE"}) {
    for (const std::string_view before : {"$", "${", "$("}) {
      if (Contains(text, std::string(before) + std::string(name))) {
        return true;
      }
    }
  }
  return false;
}

// Whether the command hands on RANK or WORLD_SIZE, which counted pods: "--node_rank=$RANK". What it
// only prints is handed to nobody.
bool CountsPodsByRank(const std::vector<std::string>& program) {
  const std::vector<std::vector<std::string>> commands = ExecutedCommands(program);
  return std::any_of(commands.begin(), commands.end(), [](const std::vector<std::string>& words) {
    return words[0] != "echo" && words[0] != "printf" && HandsOnRank(JoinedWords(words));
  });
}

bool HasVariable(const std::string& name, const Json& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](const Json& one) {
    return one.is_object() && one.value("name", Json()) == name;
  });
}

// Whether Kubeflow's operator set it, behind the manifest's own, so that it won.
// Source: pkg/controller.v1/pytorch of kubeflow/trainer v1.9.4, and its plugin torch of v2.3.
bool IsOfOperator(const std::string& variable) {
  constexpr std::array<std::string_view, 5> kNames = {
      "PET_NNODES", kCountVariable, "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"};
  return std::find(kNames.begin(), kNames.end(), variable) != kNames.end();
}

// Kubeflow's operator wrote PET_* into the pod, where Kubernetes replaces $(NAME). The runtime sets
// them later, for the process.
void RefuseReferences(const std::string& text,
                      const std::string& field,
                      const Json& variables,
                      Conversion* conversion) {
  for (const std::string& reference : InlineReferences(text, {}).unknown) {
    const std::string name = reference.substr(2, reference.size() - 3);
    if (name.starts_with("PET_") && !HasVariable(name, variables)) {
      AddError(&conversion->errors,
               field,
               reference + " found, expected no such reference: the runtime sets " + name +
                   " for the process, where torchrun reads it and a shell finds $" + name);
    }
  }
}

void RefuseReferences(const LaunchCommand& command,
                      const ConvertedPod& pod,
                      Conversion* conversion) {
  const Json variables = VariablesOf(pod);
  RefuseReferences(JoinedWords(command.program), command.path, variables, conversion);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Json value = variables[i].is_object() ? variables[i].value("value", Json()) : Json();
    if (value.is_string()) {
      RefuseReferences(
          value.get<std::string>(),
          pod.ForeignPathOf(std::string(kContainerInRole) + ".env[" + std::to_string(i) + "]"),
          variables,
          conversion);
    }
  }
}

// What the command itself says of how many processes torchrun starts in a pod; empty: nothing.
std::string CountInCommand(const LaunchCommand& command, const ConvertedPod& pod) {
  const std::string text = CountOnCommandLine(command.program);
  const InlinedValue inlined = InlineReferences(text, WrittenVariables(pod));
  return inlined.unknown.empty() && inlined.has_changed ? inlined.text : text;
}

void SetOneProcess(const ConvertedPod& pod, Json* role) {
  if (pod.gpu_count() > 1) {
    (*role)["processes"] = 1;
  }
}

// MosaicML's launcher goes by variables of its ranks and not by PET_*.
bool IsComposer(const std::vector<std::string>& program) {
  return !program.empty() && (program[0] == "composer" || program[0].ends_with("/composer"));
}

void Say(const TorchCount& per_pod, const std::string& text, Conversion* conversion) {
  if (per_pod.is_said) {
    conversion->notes.push_back({per_pod.field, text});
  }
}

// torchrun refuses to count GPUs where it finds none.
void NoteHiddenFromTorchrun(const std::string& text,
                            const std::string& field,
                            const ConvertedPod& pod,
                            Conversion* conversion) {
  if (text == "gpu" && pod.devices().empty() && pod.claims().empty()) {
    conversion->notes.push_back(
        {field,
         "\"gpu\" found where no GPU is asked for: Lockstep shows such a pod no GPU "
         "(NVIDIA_VISIBLE_DEVICES=none); ask for them in resources.limits"});
  }
}

std::string NameOf(const TorchCount& per_pod) {
  return per_pod.field.substr(per_pod.field.rfind('.') + 1);
}

}  // namespace

std::string CountOnCommandLine(const std::vector<std::string>& program) {
  for (std::vector<std::string> words : ExecutedCommands(program)) {
    if (words.size() > 1 && words[0] == "tune" && words[1] == "run") {
      words.erase(words.begin());
      words[0] = "torchrun";  // whose options it takes
    }
    if (const std::optional<TorchrunCall> call = TorchrunCallOf(words); call.has_value()) {
      return call->Option("--nproc_per_node");
    }
  }
  return "";
}

bool MayStartTorchrun(const std::vector<std::string>& program) {
  const std::string text = JoinedWords(program);
  const bool is_python = Contains(text, "python") || Contains(text, ".py");
  return !program.empty() &&
         (StartsTorchrun(program) || IsComposer(program) || !is_python ||
          Contains(text, "accelerate") || Contains(text, "tune run") || Contains(text, ".sh"));
}

void SetTorchProcesses(const LaunchCommand& command,
                       const TorchCount& per_pod,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion) {
  if (!command.problem.empty()) {
    return;
  }
  const std::vector<std::string>& program = command.program;
  DropVariables(IsOfOperator,
                " is not kept: Kubeflow's operator overwrote it, and here the runtime sets it",
                pod,
                conversion);
  RefuseReferences(command, *pod, conversion);
  if (!IsCountOfTorchrun(per_pod.text)) {
    AddError(&conversion->errors,
             per_pod.field,
             "\"" + per_pod.text +
                 "\" found, expected a number from 1 to 9999, auto, gpu or cpu, as torchrun does");
    return;
  }
  if (!MayStartTorchrun(program)) {
    if (per_pod.text != "1") {
      Say(per_pod, NameOf(per_pod) + " has no effect here; set roles[].processes", conversion);
    }
    SetOneProcess(*pod, role);
    return;
  }
  const std::string in_command = StartsTorchrun(program) ? CountInCommand(command, *pod) : "";
  const std::string& text = in_command.empty() ? per_pod.text : in_command;
  if (!in_command.empty() && in_command != per_pod.text) {
    Say(per_pod,
        NameOf(per_pod) + " has no effect here: the command says " + in_command,
        conversion);
  }
  const bool counts_ranks =
      (StartsTorchrun(program) || IsComposer(program)) && !CountsPodsByRank(program);
  if (IsComposer(program) && counts_ranks) {
    (*role)["launcher"] = "Torchrun";
    conversion->notes.push_back(
        {command.path,
         "composer joins the job's pods by WORLD_SIZE, LOCAL_WORLD_SIZE and NODE_RANK, which "
         "Kubeflow's operator did not set so"});
  }
  NoteHiddenFromTorchrun(text, in_command.empty() ? per_pod.field : command.path, *pod, conversion);
  const int64_t told = ProcessCountOf(text);
  const bool is_default = pod->gpu_count() > 0 && (text == "auto" || text == "gpu");
  if (counts_ranks && (told == 1 || told >= std::max<int64_t>(pod->gpu_count(), 1))) {
    (*role)["processes"] = told;
    pod->origins.push_back({"processes", in_command.empty() ? per_pod.field : command.path});
    return;
  }
  if (counts_ranks && is_default) {
    return;
  }
  SetOneProcess(*pod, role);
  if (in_command.empty() && text != "1") {  // which the runtime says itself
    Say(per_pod,
        std::string("kept as ") + kCountVariable +
            ": the job and WORLD_SIZE count each pod as one rank",
        conversion);
    Json variables = VariablesOf(*pod);
    variables.push_back({{"name", kCountVariable}, {"value", text}});
    pod->container()["env"] = std::move(variables);
  }
}

void KeepTorchrunAlone(const LaunchCommand& command,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion) {
  if (!command.problem.empty()) {
    return;
  }
  SetOneProcess(*pod, role);
  if (StartsTorchrun(command.program)) {
    (*role)["launcher"] = "Lockstep";
    conversion->notes.push_back(
        {command.path,
         "torchrun trains in each pod alone, as under Kubeflow's operator; remove the role's "
         "launcher: Lockstep to train together"});
  }
}

int64_t RanksOf(const Json& role, const ConvertedPod& pod) {
  const int64_t by_default = std::max<int64_t>(pod.gpu_count(), 1);
  return role.at("replicas").get<int64_t>() * role.value("processes", by_default);
}

}  // namespace lockstep::control
