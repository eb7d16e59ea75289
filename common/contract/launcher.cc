#include "common/contract/launcher.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "common/contract/executed_commands.h"
#include "common/contract/python_command.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> kNames = {
    "torchrun", "torch.distributed.run", "torch.distributed.launch"};

bool IsOfAName(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '.' || c == '-';
}

// Whether `name` stands in `text` as a word of its own, or behind the slash of a path.
bool HasWord(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool is_start = at == 0 || !IsOfAName(text[at - 1]);
    if (is_start && (end == text.size() || !(IsOfAName(text[end]) || text[end] == '/'))) {
      return true;
    }
  }
  return false;
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool IsModule(std::string_view name) {
  return name == kNames[1] || name == kNames[2];
}

// The place of torchrun's arguments among the words of a Python interpreter; absent: it runs
// something else. Source: python(1) of 3.11.
std::optional<std::size_t> ArgumentsOfModule(const std::vector<std::string>& words) {
  if (!IsPythonInterpreter(BaseName(words[0]))) {
    return std::nullopt;
  }
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (!word.starts_with('-')) {
      return BaseName(word) == kNames[0] ? std::optional(at + 1) : std::nullopt;
    }
    if (word.starts_with("--")) {
      at += word == "--check-hash-based-pycs" ? 1 : 0;
      continue;
    }
    const std::size_t letter = word.find_first_of("mcWX");
    if (letter == std::string_view::npos) {
      continue;  // letters without values
    }
    const bool is_glued = letter + 1 < word.size();
    if (word[letter] == 'm') {
      const std::size_t name = is_glued ? at : at + 1;
      const bool is_torchrun =
          name < words.size() &&
          IsModule(is_glued ? word.substr(letter + 1) : std::string_view(words[name]));
      return is_torchrun ? std::optional(name + 1) : std::nullopt;
    }
    if (word[letter] == 'c') {
      return std::nullopt;
    }
    at += is_glued ? 0 : 1;
  }
  return std::nullopt;
}

// torchrun's options with a value and those without. Source: torch/distributed/run.py of 1.13 to
// 2.9, and torch/distributed/launch.py.
constexpr std::array<std::string_view, 27> kWithValue = {"--nnodes",
                                                         "--nproc_per_node",
                                                         "--rdzv_backend",
                                                         "--rdzv_endpoint",
                                                         "--rdzv_id",
                                                         "--rdzv_conf",
                                                         "--max_restarts",
                                                         "--monitor_interval",
                                                         "--start_method",
                                                         "--event_log_handler",
                                                         "--role",
                                                         "--log_dir",
                                                         "--redirects",
                                                         "--tee",
                                                         "--local_ranks_filter",
                                                         "--duplicate_stdout_filters",
                                                         "--duplicate_stderr_filters",
                                                         "--node_rank",
                                                         "--master_addr",
                                                         "--master_port",
                                                         "--local_addr",
                                                         "--logs_specs",
                                                         "--numa_binding",
                                                         "--signals_to_handle",
                                                         "--shutdown_timeout",
                                                         "-r",
                                                         "-t"};
constexpr std::array<std::string_view, 9> kWithoutValue = {"--standalone",
                                                           "--module",
                                                           "--no_python",
                                                           "--run_path",
                                                           "--use_env",
                                                           "--virtual_local_rank",
                                                           "--help",
                                                           "-m",
                                                           "-h"};

// The option that `name` is, or an unambiguous beginning of: torchrun takes "--nproc", too.
std::string WholeName(std::string name) {
  if (!name.starts_with("--")) {
    return name.substr(0, 2);  // "-r3"
  }
  std::replace(name.begin() + 2, name.end(), '-', '_');
  std::string whole;
  for (const auto& names : {std::span<const std::string_view>(kWithValue),
                            std::span<const std::string_view>(kWithoutValue)}) {
    for (const std::string_view known : names) {
      if (known == name) {
        return name;
      }
      if (known.starts_with(name)) {
        whole = whole.empty() ? std::string(known) : name;
      }
    }
  }
  return whole.empty() ? name : whole;
}

// An option that is not known, of a later release, is thought to have a value unless a script
// follows.
bool HasValue(std::string_view option, std::string_view next) {
  if (std::ranges::find(kWithValue, option) != kWithValue.end()) {
    return true;
  }
  return std::ranges::find(kWithoutValue, option) == kWithoutValue.end() &&
         !next.starts_with('-') && !next.ends_with(".py");
}

TorchrunCall ReadOptions(const std::vector<std::string>& words, std::size_t at) {
  TorchrunCall call;
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      break;
    }
    const std::size_t equals = word.find('=');
    const std::string option = WholeName(word.substr(0, equals));
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (option[1] != '-' && word.size() > 2) {
      value = word.substr(2);
    } else if (at + 1 < words.size() && HasValue(option, words[at + 1])) {
      value = words[++at];
    }
    call.options[option] = value;
  }
  return call;
}

}  // namespace

std::string TorchrunCall::Option(std::string_view name) const {
  const auto found = options.find(name);
  return found == options.end() ? "" : found->second;
}

std::optional<TorchrunCall> TorchrunCallOf(const std::vector<std::string>& words) {
  if (words.empty()) {
    return std::nullopt;
  }
  std::size_t at = 1;
  if (BaseName(words[0]) != kNames[0]) {
    const std::optional<std::size_t> begin = ArgumentsOfModule(words);
    if (!begin.has_value()) {
      return std::nullopt;
    }
    at = *begin;
  }
  return ReadOptions(words, at);
}

std::vector<TorchrunCall> TorchrunCalls(const std::vector<std::string>& command) {
  std::vector<TorchrunCall> calls;
  for (const std::vector<std::string>& words : ExecutedCommands(command)) {
    if (std::optional<TorchrunCall> call = TorchrunCallOf(words); call.has_value()) {
      calls.push_back(std::move(*call));
    }
  }
  return calls;
}

bool StartsTorchrun(const std::vector<std::string>& command) {
  return !TorchrunCalls(command).empty();
}

bool MentionsTorchrun(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    for (const std::string_view name : kNames) {
      if (HasWord(word, name)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace lockstep
