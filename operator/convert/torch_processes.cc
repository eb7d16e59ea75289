#include "operator/convert/torch_processes.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "common/contract/command/executed_commands.h"
#include "common/contract/command/launcher.h"
#include "common/contract/text/text.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/variable_references.h"
#include "operator/convert/launch_variables.h"

namespace lockstep::control {
namespace {

constexpr const char* kCountVariable = "PET_NPROC_PER_NODE";

// What torchrun takes for how many processes a pod has. The last words are those of makers of
// devices that torch knows by their own names.
bool IsCountOfTorchrun(const std::string& text) {
  return ProcessCountOf(text) > 0 || IsListed(text, "auto gpu cpu xpu hpu npu");
}

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool HandsOnRank(const std::vector<std::string>& words) {
  const std::string text = JoinedWords(words);
  return !IsListed(words[0], "echo printf") &&  // what is only printed is handed to nobody
         std::ranges::any_of(
             std::initializer_list<const char*>{
                 "$RANK", "${RANK", "$(RANK", "$WORLD_SIZE", "${WORLD_SIZE", "$(WORLD_SIZE"},
             [&](const char* reference) { return Contains(text, reference); });
}

// Whether Kubeflow's operator set it, behind the manifest's own, so that it won.
// Source: pkg/controller.v1/pytorch of kubeflow/trainer v1.9.4, and its plugin torch of v2.3.
bool IsOfOperator(const std::string& variable) {
  return IsListed(variable,
                  "PET_NNODES PET_NPROC_PER_NODE PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT");
}

// Kubeflow's operator wrote PET_* into the pod, where Kubernetes replaces $(NAME). The runtime sets
// them later, for the process.
void RefuseReferences(const std::string& text,
                      const std::string& field,
                      const Json& variables,
                      Conversion* conversion) {
  for (const std::string& name : InlineReferences(text, {}).unknown) {
    if (name.starts_with("PET_") && IndexOfVariable(name, variables) == variables.size()) {
      AddError(&conversion->errors,
               field,
               "$(" + name + ") found, which Kubernetes cannot replace: the runtime sets " + name +
                   " only when it starts the process; use $" + name +
                   " in a command that sh -c runs");
    }
  }
}

void RefuseReferences(const ConvertedReplica& replica, Conversion* conversion) {
  const Json variables = VariablesOf(replica.pod);
  RefuseReferences(
      JoinedWords(replica.command.program), replica.command.path, variables, conversion);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Json value = MemberOf(variables[i], "value");
    if (value.is_string()) {
      RefuseReferences(value.get<std::string>(),
                       replica.pod.ForeignPathOf(PathOfVariable(i)),
                       variables,
                       conversion);
    }
  }
}

void SetOneProcess(ConvertedReplica* replica) {
  if (replica->pod.gpu_count() > 1) {
    replica->role["processes"] = 1;
  }
}

// torchrun refuses to count GPUs where it finds none.
void NoteHiddenFromTorchrun(const std::string& field,
                            const ConvertedPod& pod,
                            Conversion* conversion) {
  if (pod.devices().empty() && pod.claims().empty()) {
    conversion->notes.push_back(
        {field,
         "\"gpu\" found, but the pod requests no GPU: Lockstep hides all GPUs from such a pod "
         "(NVIDIA_VISIBLE_DEVICES=none); request GPUs in resources.limits"});
  }
}

void Say(const TorchCount& per_pod, const std::string& text, Conversion* conversion) {
  if (per_pod.is_said) {
    conversion->notes.push_back({per_pod.field, text});
  }
}

// "nprocPerNode has no effect here".
std::string HasNoEffect(const TorchCount& per_pod) {
  return per_pod.field.substr(per_pod.field.rfind('.') + 1) + " has no effect here";
}

// The same as SetTorchProcesses of a command that starts torchrun, or may.
void SetStartedProcesses(const TorchProgram& program,
                         const TorchCount& per_pod,
                         ConvertedReplica* replica,
                         Conversion* conversion) {
  const LaunchCommand& command = replica->command;
  ConvertedPod* const pod = &replica->pod;
  std::string in_command = program.has_torchrun || program.has_composer ? program.count : "";
  if (InlinedText inlined = InlineReferences(in_command, WrittenVariables(*pod));
      inlined.unknown.empty() && inlined.has_changed) {
    in_command = std::move(inlined.text);
  }
  const std::string& text = in_command.empty() ? per_pod.text : in_command;
  const std::string& field = in_command.empty() ? per_pod.field : command.path;
  if (text != per_pod.text) {
    Say(per_pod, HasNoEffect(per_pod) + ": the command says " + text, conversion);
  }
  const bool counts_ranks =
      (program.has_torchrun || program.has_composer) && !program.hands_on_rank;
  if (program.has_composer && counts_ranks) {
    replica->role["launcher"] = "Torchrun";
    conversion->notes.push_back(
        {command.path,
         "composer joins the job's pods by WORLD_SIZE, LOCAL_WORLD_SIZE and NODE_RANK, whose "
         "values in the TrainingJob differ from those under Kubeflow's operator"});
  }
  if (text == "gpu") {
    NoteHiddenFromTorchrun(field, *pod, conversion);
  }
  const int64_t told = ProcessCountOf(text);
  const int64_t gpus = pod->gpu_count();
  if (counts_ranks && (told == 1 || told >= std::max<int64_t>(gpus, 1))) {
    replica->role["processes"] = told;
    pod->origins.push_back({"processes", field});
    return;
  }
  if (counts_ranks && gpus > 0 && IsListed(text, "auto gpu")) {
    return;
  }
  if (program.has_composer && counts_ranks && !in_command.empty() && told > 0) {
    AddError(&conversion->errors,
             command.path,
             "composer with " + text +
                 " processes found, expected one process, or one for each of " +
                 std::to_string(gpus) + " GPUs: composer uses WORLD_SIZE, which fits only these");
  }
  SetOneProcess(replica);
  if (in_command.empty() && text != "1") {  // which the runtime says itself
    Say(per_pod,
        std::string("kept as ") + kCountVariable +
            "; the job and WORLD_SIZE count each pod as one rank",
        conversion);
    Json variables = VariablesOf(*pod);
    variables.push_back({{"name", kCountVariable}, {"value", text}});
    pod->container()["env"] = std::move(variables);
  } else if (program.hands_on_rank && per_pod.is_in_world_size &&
             ProcessCountOf(per_pod.text) > 1) {
    Say(per_pod,
        "in the TrainingJob, WORLD_SIZE counts each pod as one rank, not as " + per_pod.text +
            " ranks",
        conversion);
  }
}

}  // namespace

TorchProgram ReadTorchProgram(const std::vector<std::string>& command) {
  TorchProgram program;
  const std::string text = JoinedWords(command);
  const bool is_python = Contains(text, "python") || Contains(text, ".py");
  program.may_start_torchrun = !command.empty() && (!is_python || Contains(text, ".sh"));
  for (const std::vector<std::string>& words : ExecutedCommands(command)) {
    program.hands_on_rank = program.hands_on_rank || HandsOnRank(words);
    const std::optional<LauncherCall> call = LauncherCallOf(words);
    if (!call.has_value() || call->name == "deepspeed") {
      continue;
    }
    program.may_start_torchrun = true;
    program.has_torchrun = program.has_torchrun || call->name == "torchrun";
    program.has_composer = program.has_composer || call->name == "composer";
    if (program.count.empty() && call->name != "accelerate") {
      const TorchrunCall told = TorchrunOptions(words, call->arguments);
      program.count = told.Option(call->name == "composer" ? "-n" : "--nproc_per_node");
    }
  }
  return program;
}

void SetTorchProcesses(const TorchCount& per_pod,
                       ConvertedReplica* replica,
                       Conversion* conversion) {
  const LaunchCommand& command = replica->command;
  ConvertedPod* const pod = &replica->pod;
  if (!command.problem.empty()) {
    return;
  }
  DropVariables(IsOfOperator,
                " is not kept: Kubeflow's operator overwrote it, and Lockstep's runtime sets it",
                pod,
                conversion);
  RefuseReferences(*replica, conversion);
  if (!IsCountOfTorchrun(per_pod.text)) {
    AddError(&conversion->errors,
             per_pod.field,
             "\"" + per_pod.text +
                 "\" found, but torchrun expects a number from 1 to 9999, auto, gpu or cpu");
    return;
  }
  const TorchProgram program = ReadTorchProgram(command.program);
  if (program.may_start_torchrun) {
    SetStartedProcesses(program, per_pod, replica, conversion);
    return;
  }
  if (per_pod.text != "1") {
    Say(per_pod, HasNoEffect(per_pod) + "; set roles[].processes", conversion);
  }
  SetOneProcess(replica);
}

void KeepTorchrunAlone(ConvertedReplica* replica, Conversion* conversion) {
  if (!replica->command.problem.empty()) {
    return;
  }
  SetOneProcess(replica);
  if (StartsTorchrun(replica->command.program)) {
    replica->role["launcher"] = "Lockstep";
    conversion->notes.push_back(
        {replica->command.path,
         "torchrun trains in each pod separately, as under Kubeflow's operator; to train together, "
         "remove \"launcher: Lockstep\" from the role"});
  }
}

}  // namespace lockstep::control
