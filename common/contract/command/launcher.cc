#include "common/contract/command/launcher.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/contract/command/executed_commands.h"
#include "common/contract/command/python_command.h"
#include "common/contract/text/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kTorchrun = "torchrun";

struct Launcher {
  std::string_view name;
  std::string_view programs;  // and modules, which have a dot
  std::string_view subcommand = "";
};

constexpr std::array<Launcher, 8> kLaunchers = {{
    {kTorchrun, "torchrun torch.distributed.run torch.distributed.launch"},
    {"mpirun", "mpirun mpiexec mpiexec.hydra orterun mpirun.real"},
    {"horovodrun", "horovodrun horovod.runner.launch"},
    {"accelerate", "accelerate", "launch"},
    {"accelerate", "accelerate.commands.launch"},
    {"composer", "composer composer.cli.launcher"},
    {"deepspeed", "deepspeed ds deepspeed.launcher.runner"},
    {"tune", "tune", "run"},
}};

bool IsOfAName(char c) {
  return IsDigit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' ||
         c == '-';
}

// The program that a process with these words runs, and where its arguments begin: that of its
// first word, or the script or module of a Python interpreter, which "$PYTHON" is taken for.
// Source: python(1) of 3.11.
LauncherCall ProgramOf(const std::vector<std::string>& words) {
  const std::string_view program = BaseName(words[0]);
  if (!IsPythonInterpreter(program) && !program.starts_with('$')) {
    return {program, 1};
  }
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (!word.starts_with('-')) {
      return {BaseName(word), at + 1};
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
    at += is_glued ? 0 : 1;
    if (word[letter] == 'm' && at < words.size()) {
      const std::string_view name = is_glued ? word.substr(letter + 1) : words[at];
      return {name.find('.') == std::string_view::npos ? "" : name, at + 1};
    }
    if (word[letter] == 'c') {
      break;
    }
  }
  return {"", words.size()};
}

// torchrun's options with a value and those without. Source: torch/distributed/run.py of 1.13 to
// 2.9, and torch/distributed/launch.py.
constexpr std::string_view kWithValue =
    "--nnodes --nproc_per_node --rdzv_backend --rdzv_endpoint --rdzv_id --rdzv_conf --max_restarts "
    "--monitor_interval --start_method --event_log_handler --role --log_dir --redirects --tee "
    "--local_ranks_filter --duplicate_stdout_filters --duplicate_stderr_filters --node_rank "
    "--master_addr --master_port --local_addr --logs_specs --numa_binding --signals_to_handle "
    "--shutdown_timeout -r -t";
constexpr std::string_view kWithoutValue =
    "--standalone --module --no_python --run_path --use_env --virtual_local_rank --help -m -h";

// The option that `name` is, or an unambiguous beginning of: torchrun takes "--nproc", too.
std::string WholeName(std::string name) {
  if (!name.starts_with("--")) {
    return name.substr(0, 2);  // "-r3"
  }
  std::replace(name.begin() + 2, name.end(), '-', '_');
  if (IsListed(name, kWithValue) || IsListed(name, kWithoutValue)) {
    return name;
  }
  std::string whole;
  for (const std::string_view names : {kWithValue, kWithoutValue}) {
    for (std::size_t at = names.find(name); at != std::string_view::npos;
         at = names.find(name, at + 1)) {
      const bool is_first = whole.empty();
      whole = is_first ? std::string(names.substr(at, names.find(' ', at) - at)) : name;
    }
  }
  return whole.empty() ? name : whole;
}

// An option that is not known, of a later release, is thought to have a value unless a script
// follows.
bool HasValue(std::string_view option, std::string_view next) {
  return IsListed(option, kWithValue) ||
         (!IsListed(option, kWithoutValue) && !next.starts_with('-') && !next.ends_with(".py"));
}

}  // namespace

TorchrunCall TorchrunOptions(const std::vector<std::string>& words, std::size_t arguments) {
  TorchrunCall call;
  for (std::size_t at = arguments; at < words.size() && words[at].size() > 1 && words[at][0] == '-';
       ++at) {
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

std::string TorchrunCall::Option(std::string_view name) const {
  const auto found = options.find(name);
  return found == options.end() ? "" : found->second;
}

std::optional<int> MachinesThatTorchrunNeeds(std::string_view nnodes) {
  const std::string_view fewest = nnodes.substr(0, nnodes.find(':'));
  int count = 0;
  const char* const end = fewest.data() + fewest.size();
  const auto [stop, problem] = std::from_chars(fewest.data(), end, count);
  return problem == std::errc() && stop == end && count > 0 ? std::optional(count) : std::nullopt;
}

std::optional<LauncherCall> LauncherCallOf(const std::vector<std::string>& words) {
  const LauncherCall program = words.empty() ? LauncherCall{} : ProgramOf(words);
  const std::size_t at = program.arguments;
  for (const Launcher& one : kLaunchers) {
    if (!IsListed(program.name, one.programs)) {
      continue;
    }
    if (one.subcommand.empty()) {
      return LauncherCall{one.name, at};
    }
    if (at < words.size() && words[at] == one.subcommand) {
      return LauncherCall{one.name, at + 1};
    }
  }
  return std::nullopt;
}

std::optional<TorchrunCall> TorchrunCallOf(const std::vector<std::string>& words) {
  const std::optional<LauncherCall> call = LauncherCallOf(words);
  return call.has_value() && call->name == kTorchrun
             ? std::optional(TorchrunOptions(words, call->arguments))
             : std::nullopt;
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
    for (auto at = word.begin(); at != word.end();) {
      const auto begin = std::find_if(at, word.end(), IsOfAName);
      at = std::find_if_not(begin, word.end(), IsOfAName);
      if (IsListed({begin, at}, kLaunchers[0].programs) && (at == word.end() || *at != '/')) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace lockstep
