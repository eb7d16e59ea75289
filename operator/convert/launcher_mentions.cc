#include "operator/convert/launcher_mentions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string_view>

namespace lockstep::control {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// "NAME=value".
bool IsAssignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
         });
}

// Whether a command of a shell may begin behind `before`, the text in front of it.
bool MayBeginCommand(std::string_view before) {
  constexpr std::array<std::string_view, 13> kBeforeCommands = {
      "exec", "env", "nohup", "time", "sudo", "then", "do", "else", "if", "while", "{", "!", "--"};
  const std::size_t line = before.find_last_not_of(" \t\r");
  if (line == std::string_view::npos ||
      std::string_view(";&|(\n`'\"").find(before[line]) != std::string_view::npos) {
    return true;
  }
  before = before.substr(0, line + 1);
  const std::string_view word = before.substr(before.find_last_of(" \t\r\n;&|(`'\"") + 1);
  return IsAssignment(word) ||
         std::find(kBeforeCommands.begin(), kBeforeCommands.end(), word) != kBeforeCommands.end();
}

// Whether a shell's script seems to run `name`: it begins a command, or is a program by its path.
bool RunsCommand(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::string_view rest = text.substr(at + name.size());
    const std::size_t next = rest.find_first_not_of(kBlanks);
    const bool is_whole =
        rest.empty() || kBlanks.find(rest[0]) != std::string_view::npos || rest.starts_with("\\\n");
    const bool is_variable = next != std::string_view::npos && rest[next] == '=';  // of a script
    if (!is_whole || is_variable) {
      continue;
    }
    const std::string_view before = text.substr(0, at);
    const std::string_view path = before.substr(before.find_last_of(" \t\r\n;&|(`'\"=") + 1);
    // A word on its own is an option's value as well.
    const bool is_command = text.find_first_of(kBlanks) != std::string_view::npos &&
                            (path.empty() || path.ends_with('/')) &&
                            MayBeginCommand(before.substr(0, before.size() - path.size()));
    if (is_command || path.ends_with("bin/")) {
      return true;
    }
  }
  return false;
}

constexpr std::string_view kLettersOfVariables =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

// Of the names of variables that mpirun sets, of OpenMPI, MPICH, Intel and MVAPICH.
constexpr std::array<std::string_view, 7> kOfMpirun = {"OMPI_COMM_WORLD_",
                                                       "OMPI_UNIVERSE_SIZE",
                                                       "PMIX_RANK",
                                                       "PMIX_NAMESPACE",
                                                       "PMI_",
                                                       "MPI_LOCAL",
                                                       "MV2_COMM_WORLD_"};

// The names of variables in `text` that begin so, each once, in order; of those that it sets itself
// none.
std::vector<std::string> NamesThatBegin(std::string_view text,
                                        std::span<const std::string_view> beginnings) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_not_of(kLettersOfVariables, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool is_set_here = end < text.size() && text[end] == '=';
    const bool is_of_them =
        !is_set_here && std::any_of(beginnings.begin(),
                                    beginnings.end(),
                                    [&](std::string_view name) { return word.starts_with(name); });
    if (is_of_them && std::find(names.begin(), names.end(), word) == names.end()) {
      names.emplace_back(word);
    }
    at = end + 1;
  }
  return names;
}

}  // namespace

bool MentionsLauncher(const std::string& text) {
  constexpr std::array<std::string_view, 9> kNames = {"torchrun",
                                                      "torch.distributed.run",
                                                      "torch.distributed.launch",
                                                      "mpirun",
                                                      "horovodrun",
                                                      "accelerate launch",
                                                      "accelerate-launch",
                                                      "accelerate.commands.launch",
                                                      "deepspeed.launcher"};
  return std::any_of(kNames.begin(),
                     kNames.end(),
                     [&](std::string_view name) { return text.find(name) != std::string::npos; }) ||
         RunsCommand(text, "deepspeed") ||  // which is a word of options and files as well
         RunsCommand(text, "ds");
}

std::vector<std::string> VariablesOfMpirun(const std::string& text) {
  return NamesThatBegin(text, kOfMpirun);
}

std::vector<std::string> VariablesOfTorchrun(const std::string& text) {
  constexpr std::array<std::string_view, 1> kOfTorchrun = {"PET_"};
  return NamesThatBegin(text, kOfTorchrun);
}

}  // namespace lockstep::control
