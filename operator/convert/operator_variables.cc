#include "operator/convert/operator_variables.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "operator/convert/launcher_mentions.h"
#include "operator/convert/launcher_name.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kTorchrunOf =
    " --node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT";

bool IsShell(std::string_view word) {
  constexpr std::array<std::string_view, 5> kShells = {"sh", "bash", "dash", "ash", "zsh"};
  const std::string_view name = word.substr(word.rfind('/') + 1);  // npos + 1 is 0
  return std::find(kShells.begin(), kShells.end(), name) != kShells.end();
}

// Whether `text` names a file of a shell's.
bool NamesScript(std::string_view text) {
  return text.find(".sh") != std::string_view::npos;
}

// What says here what `name` says there.
std::string OursFor(std::string_view name, int64_t pods) {
  if (name == "PET_NNODES") {
    return "the job has " + std::to_string(pods) + " pods";
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOurs = {
      {{"PET_NODE_RANK", "NODE_RANK"},
       {"PET_MASTER_ADDR", "MASTER_ADDR"},
       {"PET_MASTER_PORT", "MASTER_PORT"},
       {"PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"}}};
  const auto* const found =
      std::find_if(kOurs.begin(), kOurs.end(), [&](const auto& one) { return one.first == name; });
  return found == kOurs.end() ? "there is nothing like it here"
                              : "here it is " + std::string(found->second);
}

struct Text {
  std::string field;
  std::string text;
};

// The words of the program, together, and the values of the container's variables. `names`: of
// these.
std::vector<Text> TextsOf(const LaunchCommand& command,
                          const ConvertedPod& pod,
                          std::vector<std::string>* names) {
  std::string words;
  for (const std::string& word : command.program) {
    words += (words.empty() ? "" : " ") + word;
  }
  std::vector<Text> texts = {{command.path, words}};
  const Json env = pod.spec.at("containers").at(0).value("env", Json());
  for (std::size_t i = 0; env.is_array() && i < env.size(); ++i) {
    const Json name = env[i].is_object() ? env[i].value("name", Json()) : Json();
    const Json value = env[i].is_object() ? env[i].value("value", Json()) : Json();
    if (name.is_string()) {
      names->push_back(name.get<std::string>());
    }
    if (value.is_string()) {
      const std::string of_role = std::string(kContainerInRole) + ".env[" + std::to_string(i) + "]";
      texts.push_back({pod.ForeignPathOf(of_role) + ".value", value.get<std::string>()});
    }
  }
  return texts;
}

}  // namespace

bool MayStartUnseen(const std::vector<std::string>& program) {
  if (program.empty()) {
    return false;
  }
  const bool is_python = std::any_of(program.begin(), program.end(), [](const std::string& word) {
    return IsPython(word) || word.ends_with(".py");
  });
  if (std::any_of(program.begin(), program.end(), NamesScript)) {
    return true;
  }
  const bool has_text = program.size() > 1 && program[1].starts_with('-') &&
                        program[1].ends_with('c');  // bash -lc "..."
  return !is_python &&
         (IsShell(program[0]) ? !has_text : program[0].find('/') != std::string::npos);
}

bool NoteUnseenLauncher(const LaunchCommand& command, int64_t pods, Conversion* conversion) {
  const bool is_unseen = command.launcher == Launcher::kNone && command.problem.empty() &&
                         !command.may_launch && MayStartUnseen(command.program);
  if (is_unseen) {
    conversion->notes.push_back(
        {command.path,
         "may start torchrun, which cannot be seen from this file: Kubeflow's operator told that "
         "of the others by PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR and "
         "PET_MASTER_PORT, and Lockstep sets none of them, so it would train in each pod alone, "
         "with one process. Give the program as the command, or torchrun the options --nnodes " +
             std::to_string(pods) + std::string(kTorchrunOf) + " and --nproc-per-node"});
  }
  return is_unseen;
}

void NoteVariablesOfOperator(const LaunchCommand& command,
                             const ConvertedPod& pod,
                             int64_t processes,
                             int64_t pods,
                             Conversion* conversion) {
  std::vector<std::string> set_here;
  for (const Text& one : TextsOf(command, pod, &set_here)) {
    for (const std::string& name : VariablesOfTorchrun(one.text)) {
      if (std::find(set_here.begin(), set_here.end(), name) == set_here.end()) {
        conversion->notes.push_back(
            {one.field,
             name +
                 ": Kubeflow's operator set it, and nobody does now: it is empty to a program or a "
                 "shell, and $(" +
                 name + ") stays as it is; " + OursFor(name, pods)});
      }
    }
    const bool names_rank = one.text.find("$(RANK)") != std::string::npos;
    if (processes > 1 && (names_rank || one.text.find("$(WORLD_SIZE)") != std::string::npos)) {
      conversion->notes.push_back(
          {one.field,
           names_rank ? "$(RANK) was the pod's number, and is that of its first process now: the "
                        "pod's is NODE_RANK"
                      : "$(WORLD_SIZE) did not count the processes that torchrun starts in a pod, "
                        "unless nprocPerNode says a number, and is " +
                            std::to_string(pods * processes) + " now: the job has " +
                            std::to_string(pods) + " pods"});
    }
  }
}

}  // namespace lockstep::control
