#include "operator/convert/launch_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <sstream>
#include <string_view>

#include "operator/convert/launcher_options.h"

namespace lockstep::control {
namespace {

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool IsPython(std::string_view word) {
  return BaseName(word).starts_with("python");
}

// How many words name the launcher, and which it is.
struct LauncherName {
  Launcher launcher = Launcher::kNone;
  std::size_t word_count = 1;
  std::string python = "python3";
  std::string local_rank_argument = {};
};

// One that is run as a module of Python.
struct LauncherModule {
  std::string_view name;
  Launcher launcher = Launcher::kTorchrun;
  std::string_view local_rank_argument = {};
};

constexpr std::array<LauncherModule, 5> kModules = {{
    {"torch.distributed.run"},
    {"torch.distributed.elastic.run"},
    {"torch.distributed.launch",
     Launcher::kTorchrun,
     "--local-rank (before torch 2: --local_rank)"},
    {"accelerate.commands.launch", Launcher::kAccelerate},
    {"deepspeed.launcher.runner", Launcher::kDeepspeed, "--local_rank"},
}};

// Where the name of the module stands that a command of Python's runs; 0: it runs none. What
// stands before it ("-u") is the launcher's own, which starts its program without that.
std::size_t ModuleIndex(const std::vector<std::string>& words) {
  if (words.empty() || !IsPython(words[0])) {
    return 0;
  }
  for (std::size_t i = 1; i + 1 < words.size() && words[i].starts_with('-'); ++i) {
    const std::string& word = words[i];
    if (word == "-W" || word == "-X") {
      ++i;  // past its value
      continue;
    }
    const bool is_group = word.find_first_of("-cWX", 1) == std::string::npos;  // "-um"
    if (is_group && word.ends_with('m')) {
      return i + 1;
    }
    if (word == "-c") {
      return 0;
    }
  }
  return 0;
}

LauncherName FindLauncher(const std::vector<std::string>& words) {
  const std::string_view first = words.empty() ? "" : BaseName(words[0]);
  if (first == "torchrun") {
    return {Launcher::kTorchrun};
  }
  if (first == "mpirun" || first == "mpiexec" || first == "mpiexec.hydra") {
    return {Launcher::kMpirun};
  }
  if (first == "horovodrun") {
    return {Launcher::kHorovodrun};
  }
  if (first == "accelerate-launch") {
    return {Launcher::kAccelerate};
  }
  if (first == "accelerate" && words.size() > 1 && words[1] == "launch") {
    return {Launcher::kAccelerate, 2};
  }
  if (first == "deepspeed" || first == "ds") {
    return {Launcher::kDeepspeed, 1, "python3", "--local_rank"};
  }
  if (const std::size_t at = ModuleIndex(words); at > 0) {
    const auto found = std::find_if(kModules.begin(), kModules.end(), [&](const auto& module) {
      return module.name == words[at];
    });
    if (found != kModules.end()) {
      return {found->launcher, at + 1, words[0], std::string(found->local_rank_argument)};
    }
  }
  return {};
}

std::optional<int64_t> NumberOf(const std::string& text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(count) : std::nullopt;
}

void NoteVariable(const std::vector<std::string>& values, LaunchCommand* command) {
  if (values.size() == 2) {
    command->environment.emplace_back(values[0], values[1]);
    return;
  }
  const std::size_t equals = values[0].find('=');
  if (equals == std::string::npos) {
    command->handed_on.push_back(values[0]);
  } else {
    command->environment.emplace_back(values[0].substr(0, equals), values[0].substr(equals + 1));
  }
}

// "A,B".
void NoteNames(const std::string& list, LaunchCommand* command) {
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) {
    command->handed_on.push_back(name);
  }
}

// The launcher's options, one after the other, until its program begins.
class OptionReader {
 public:
  OptionReader(const std::vector<std::string>& words, const LauncherName& name)
      : words_(words), at_(name.word_count), python_(name.python) {
    command_.launcher = name.launcher;
    command_.pods_with_several = name.launcher == Launcher::kAccelerate
                                     ? PodsWithSeveral::kThoseWithDevices
                                     : PodsWithSeveral::kAll;
    command_.local_rank_argument = name.local_rank_argument;
  }

  LaunchCommand Read() {
    while (at_ < words_.size() && words_[at_].starts_with('-') && command_.problem.empty()) {
      ReadOption();
    }
    if (command_.problem.empty() && at_ >= words_.size()) {
      command_.problem = "no program found behind the options of " + Name();
    }
    if (command_.launcher == Launcher::kAccelerate && command_.problem.empty()) {
      CountPerPod();
    }
    if (IsTorchLauncher(command_.launcher) && has_python_) {
      command_.program.push_back(python_);
      if (is_module_) {
        command_.program.emplace_back("-m");
      }
    }
    while (at_ < words_.size()) {
      command_.program.push_back(words_[at_++]);
    }
    return std::move(command_);
  }

 private:
  void ReadOption() {
    const std::string& word = words_[at_++];
    const std::size_t equals = word.find('=');
    const auto found = OptionOf(command_.launcher, word.substr(0, equals));
    if (!found.has_value()) {
      if (equals == std::string::npos) {
        command_.problem =
            "the option " + word + " of " + Name() +
            " is not known, so it cannot be told where the program begins; remove it";
      } else {
        command_.dropped.push_back(word);
      }
      return;
    }
    std::vector<std::string> values;
    if (equals != std::string::npos && found->value_count == 1) {
      values.push_back(word.substr(equals + 1));
    }
    while (static_cast<int>(values.size()) < found->value_count && at_ < words_.size()) {
      values.push_back(words_[at_++]);
    }
    if (static_cast<int>(values.size()) < found->value_count) {
      command_.problem = "the option " + word + " of " + Name() + " lacks its value";
      return;
    }
    Heed(word.substr(0, equals), *found, values);
  }

  std::string Name() const {
    const bool is_one_word = !IsPython(words_[0]) && command_.launcher != Launcher::kAccelerate;
    return is_one_word ? words_[0] : std::string(NameOf(command_.launcher));
  }

  // Of accelerate, which is told how many there are in all.
  void CountPerPod() {
    const int64_t machines = command_.machine_count.value_or(1);
    const std::optional<int64_t>& count = command_.process_count;
    const bool has_one = command_.pods_with_several == PodsWithSeveral::kNone;
    if (!count.has_value()) {
      if (machines > 1 && !has_one) {
        command_.problem = "--num_machines " + std::to_string(machines) + " of " + Name() +
                           " needs --num_processes, the number in all: without it a pod starts as "
                           "many as it has GPUs, divided by the machines";
      }
      return;
    }
    if (has_one) {
      command_.processes_per_pod = std::to_string(*count / std::max<int64_t>(machines, 1));
      return;
    }
    if (machines < 1 || *count < machines || *count % machines != 0) {
      command_.problem = "--num_processes " + std::to_string(*count) + " on --num_machines " +
                         std::to_string(machines) +
                         " is not the same number on each, as a TrainingJob's pods have";
      return;
    }
    command_.processes_per_pod = std::to_string(*count / machines);
  }

  static std::string Written(const std::string& name, const std::vector<std::string>& values) {
    std::string text = name;
    for (const std::string& value : values) {
      text += " " + value;
    }
    return text;
  }

  // accelerate divides by it.
  void HeedMachines(const std::string& written, const std::string& value) {
    command_.machine_count = NumberOf(value);
    if (!command_.machine_count.has_value() && command_.launcher == Launcher::kAccelerate) {
      command_.problem = written + " of " + Name() +
                         " is no number, so it cannot be told how many processes a pod has; say "
                         "the number there";
    }
  }

  void Heed(const std::string& name,
            const LauncherOption& option,
            const std::vector<std::string>& values) {
    switch (option.meaning) {
      case Meaning::kPerPod:
        command_.processes_per_pod = values[0];
        return;
      case Meaning::kCount:
        command_.process_count = NumberOf(values[0]);
        if (!command_.process_count.has_value()) {
          break;
        }
        return;
      case Meaning::kMachines:
        HeedMachines(Written(name, values), values[0]);
        break;
      case Meaning::kHostfile:
        command_.has_hostfile = true;
        break;
      case Meaning::kMultiGpu:
        if (command_.pods_with_several != PodsWithSeveral::kNone) {
          command_.pods_with_several = PodsWithSeveral::kAll;
        }
        break;
      case Meaning::kCpu:
        command_.pods_with_several = PodsWithSeveral::kNone;
        command_.environment.emplace_back(option.variable, option.value);
        return;
      case Meaning::kSetting:
        command_.environment.emplace_back(option.variable,
                                          values.empty() ? option.value : values[0]);
        return;
      case Meaning::kRefused:
        command_.problem = Written(name, values) + " of " + Name() +
                           " cannot be kept: what it says reaches the program by " + Name() +
                           " alone; give the program itself as the command, and say it there or "
                           "in env";
        return;
      case Meaning::kUsesEnvironment:
        command_.local_rank_argument.clear();
        break;
      case Meaning::kVariable:
        NoteVariable(values, &command_);
        return;
      case Meaning::kNames:
        NoteNames(values[0], &command_);
        return;
      case Meaning::kModule:
        is_module_ = true;
        return;
      case Meaning::kNoPython:
        has_python_ = false;
        return;
      case Meaning::kDropped:
        break;
    }
    command_.dropped.push_back(Written(name, values));
  }

  const std::vector<std::string>& words_;
  std::size_t at_;
  std::string python_;
  bool is_module_ = false;
  bool has_python_ = true;
  LaunchCommand command_;
};

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

}  // namespace

std::string_view NameOf(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kMpirun:
      return "mpirun";
    case Launcher::kHorovodrun:
      return "horovodrun";
    case Launcher::kAccelerate:
      return "accelerate launch";
    case Launcher::kDeepspeed:
      return "deepspeed";
  }
  return "";
}

bool IsTorchLauncher(Launcher launcher) {
  return launcher == Launcher::kTorchrun || launcher == Launcher::kAccelerate ||
         launcher == Launcher::kDeepspeed;
}

LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words) {
  const LauncherName name = FindLauncher(words);
  if (name.launcher == Launcher::kNone) {
    LaunchCommand command;
    command.program = words;
    return command;
  }
  return OptionReader(words, name).Read();
}

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

}  // namespace lockstep::control
