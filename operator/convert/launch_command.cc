#include "operator/convert/launch_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/plural.h"
#include "operator/convert/launcher_name.h"
#include "operator/convert/launcher_options.h"
#include "operator/convert/variable_references.h"

namespace lockstep::control {
namespace {

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

constexpr const char* kExpectedCount = "a number from 1 to 9999";
constexpr std::string_view kSettingOfTorchrun = "PET_";

// "--nnodes" of PET_NNODES.
std::string OptionOfSetting(std::string_view variable) {
  std::string option = "--";
  for (const char letter : variable.substr(kSettingOfTorchrun.size())) {
    option += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return option;
}

// Whether deepspeed takes the number for none: it counts for itself.
bool IsUnsaidOfDeepspeed(Launcher launcher, const std::string& value) {
  return launcher == Launcher::kDeepspeed && (value == "0" || value == "-1");
}

bool IsOfMpi(Launcher launcher) {
  return launcher == Launcher::kMpirun || launcher == Launcher::kHorovodrun;
}

// A launcher of PyTorch's, `inner`, that `outer` starts.
LaunchCommand Within(const LaunchCommand& outer, LaunchCommand inner) {
  inner.outer = outer.launcher;
  inner.outer_count = outer.process_count;
  inner.outer_per_pod = outer.processes_per_pod;
  inner.environment.insert(
      inner.environment.begin(), outer.environment.begin(), outer.environment.end());
  inner.handed_on = outer.handed_on;
  inner.dropped.insert(inner.dropped.begin(), outer.dropped.begin(), outer.dropped.end());
  inner.unknown_counts.insert(
      inner.unknown_counts.begin(), outer.unknown_counts.begin(), outer.unknown_counts.end());
  inner.working_directory = outer.working_directory;
  return inner;
}

// The launcher's options, one after the other, until its program begins.
class OptionReader {
 public:
  OptionReader(const std::vector<std::string>& words,
               const LauncherName& name,
               const std::map<std::string, std::string>& known)
      : words_(words), known_(known), at_(name.word_count), python_(name.python) {
    command_.launcher = name.launcher;
    command_.pods_with_several = name.launcher == Launcher::kAccelerate
                                     ? PodsWithSeveral::kThoseWithDevices
                                     : PodsWithSeveral::kAll;
    command_.local_rank_argument = name.local_rank_argument;
  }

  LaunchCommand Read(const std::map<std::string, std::string>& settings) {
    if (command_.launcher == Launcher::kTorchrun) {
      HeedSettings(settings);
    }
    while (at_ < words_.size() && words_[at_].starts_with('-') && command_.problem.empty()) {
      ReadOption();
    }
    if (command_.problem.empty() && at_ >= words_.size()) {
      command_.problem = "no program found behind the options of " + Name();
    }
    if (command_.launcher == Launcher::kAccelerate && command_.problem.empty()) {
      CountPerPod();
    }
    if (IsOfMpi(command_.launcher) && command_.problem.empty()) {
      RefuseSeveralPrograms();
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
  // The command line wins over them: it is read later.
  void HeedSettings(const std::map<std::string, std::string>& settings) {
    for (const auto& [name, value] : settings) {
      const auto found = name.starts_with(kSettingOfTorchrun)
                             ? OptionOf(Launcher::kTorchrun, OptionOfSetting(name))
                             : std::nullopt;
      if (!found.has_value() || found->meaning == Meaning::kUsesEnvironment ||
          !command_.problem.empty()) {
        continue;
      }
      command_.heeded_variables.push_back(name);
      const std::string written = name + "=" + value;
      const bool is_flag = found->value_count == 0;
      if (is_flag && value.find_first_not_of("0123456789") != std::string::npos) {
        Refuse(written, "a whole number, as torchrun does");
      } else if (!is_flag || value.find_first_not_of('0') != std::string::npos) {
        Heed(written, *found, {value});
      }
    }
  }

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
    const bool is_number =
        found->meaning == Meaning::kPerPod || found->meaning == Meaning::kCount ||
        found->meaning == Meaning::kMachines || found->meaning == Meaning::kMapping;
    std::string written = Written(word.substr(0, equals), values);
    if (is_number && Resolved(values[0]) != values[0]) {
      values[0] = Resolved(values[0]);
      written += " (= " + values[0] + ")";
    }
    Heed(written, *found, values);
  }

  std::string Name() const {
    const bool is_one_word = !IsPython(words_[0]) && command_.launcher != Launcher::kAccelerate;
    return is_one_word ? words_[0] : std::string(NameOf(command_.launcher));
  }

  // Of accelerate, which is told how many there are in all.
  void CountPerPod() {
    const int64_t machines = command_.machines.value_or(MachineRange()).max;
    const std::optional<int64_t>& count = command_.process_count;
    const bool has_one = command_.pods_with_several == PodsWithSeveral::kNone;
    if (!command_.unknown_counts.empty() && !has_one) {
      command_.problem = NoNumber(command_.unknown_counts.front());
      return;
    }
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

  // A value as the container has it, where the file says that.
  std::string Resolved(const std::string& value) const {
    InlinedValue inlined = InlineReferences(value, known_);
    return inlined.has_changed ? std::move(inlined.text) : value;
  }

  static std::string Written(const std::string& name, const std::vector<std::string>& values) {
    std::string text = name;
    for (const std::string& value : values) {
      text += " " + value;
    }
    return text;
  }

  // Such as `mpirun -np 1 a : -np 1 b`.
  void RefuseSeveralPrograms() {
    if (std::find(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end(), ":") !=
        words_.end()) {
      command_.problem =
          "several programs found behind " + Name() +
          ", with \":\" between them, expected one: every pod of a role runs the same";
    }
  }

  std::string NoNumber(const std::string& written) const {
    return written + " of " + Name() +
           " is no number, so it cannot be told how many processes a pod has; say the number there";
  }

  void HeedMachines(const std::string& written, const std::string& value) {
    const bool is_torchrun = command_.launcher == Launcher::kTorchrun;
    command_.names_machines = command_.names_machines || is_torchrun;
    command_.machines = MachineRangeOf(value);
    command_.unknown_machines.clear();
    const bool is_range = command_.machines.has_value() && value.find(':') != std::string::npos;
    if (IsUnsaidOfDeepspeed(command_.launcher, value)) {
      return;
    }
    if (HasReference(value) && command_.launcher == Launcher::kAccelerate) {
      command_.problem = NoNumber(written);  // it divides by it
    } else if (HasReference(value)) {
      command_.unknown_machines = written;
    } else if (!command_.machines.has_value() || (is_range && !is_torchrun)) {
      Refuse(written,
             std::string(kExpectedCount) +
                 (is_torchrun ? ", or MIN:MAX of such, as torchrun does" : ""));
    }
  }

  void Refuse(const std::string& written, const std::string& expected) {
    command_.problem = written + " of " + Name() + " found, expected " + expected;
  }

  void HeedCount(const std::string& written, const std::string& value) {
    if (const int64_t count = ProcessCountOf(value); count > 0) {
      command_.process_count = count;
    } else if (HasReference(value)) {
      command_.unknown_counts.push_back(written);
    } else {
      Refuse(written, kExpectedCount);
    }
  }

  void HeedPerPod(const std::string& written, const std::string& value) {
    const Launcher launcher = command_.launcher;
    const bool is_torchrun = launcher == Launcher::kTorchrun;
    if (is_torchrun ? IsCountOfTorchrun(value) : ProcessCountOf(value) > 0) {
      command_.processes_per_pod = value;
    } else if (HasReference(value) && IsTorchLauncher(launcher)) {
      command_.processes_per_pod = value;
    } else if (HasReference(value)) {
      command_.unknown_counts.push_back(written);
    } else if (IsUnsaidOfDeepspeed(launcher, value)) {
      command_.dropped.push_back(written);
    } else {
      Refuse(written,
             is_torchrun ? "a number from 1 to 9999, auto, gpu or cpu, as torchrun does"
                         : kExpectedCount);
    }
  }

  // "ppr:2:node" says how many there are on a machine.
  void HeedMapping(const std::string& written, const std::string& value) {
    constexpr std::string_view kPerResource = "ppr:";
    const std::size_t end = value.find(':', kPerResource.size());
    if (value.starts_with(kPerResource) && end != std::string::npos &&
        (value.substr(end) == ":node" || value.substr(end).starts_with(":node:"))) {
      HeedPerPod(written, value.substr(kPerResource.size(), end - kPerResource.size()));
    }
  }

  void Heed(const std::string& written,
            const LauncherOption& option,
            const std::vector<std::string>& values) {
    switch (option.meaning) {
      case Meaning::kPerPod:
        HeedPerPod(written, values[0]);
        return;
      case Meaning::kCount:
        HeedCount(written, values[0]);
        return;
      case Meaning::kOnePerPod:
        command_.processes_per_pod = "1";
        break;
      case Meaning::kMapping:
        HeedMapping(written, values[0]);
        break;
      case Meaning::kMachines:
        HeedMachines(written, values[0]);
        break;
      case Meaning::kOneMachine:
        HeedMachines(written, "1");
        break;
      case Meaning::kHostfile:
        command_.names_machines = true;
        break;
      case Meaning::kWorkingDirectory:
        command_.working_directory = values[0];
        return;
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
        command_.problem = written + " of " + Name() +
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
    command_.dropped.push_back(written);
  }

  const std::vector<std::string>& words_;
  const std::map<std::string, std::string>& known_;
  std::size_t at_;
  std::string python_;
  bool is_module_ = false;
  bool has_python_ = true;
  LaunchCommand command_;
};

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

std::string RanksAskedFor(int64_t count) {
  return Plural(count, "rank") + (count == 1 ? " was" : " were") + " asked for";
}

std::optional<MachineRange> MachineRangeOf(const std::string& text) {
  const std::size_t colon = text.find(':');
  const int64_t min = ProcessCountOf(text.substr(0, colon));
  const int64_t max = colon == std::string::npos ? min : ProcessCountOf(text.substr(colon + 1));
  return min > 0 && max >= min ? std::optional(MachineRange{min, max}) : std::nullopt;
}

int64_t ProcessCountOf(const std::string& text) {
  constexpr std::size_t kDigitsMax = 4;
  const bool is_count = !text.empty() && text.size() <= kDigitsMax &&
                        std::all_of(text.begin(), text.end(), [](unsigned char letter) {
                          return std::isdigit(letter) != 0;
                        });
  return is_count ? std::stoll(text) : 0;
}

bool IsCountOfTorchrun(const std::string& text) {
  // The last two by what makers of devices add to torch, which is asked for by its own name.
  constexpr std::array<std::string_view, 6> kWords = {"auto", "gpu", "cpu", "xpu", "hpu", "npu"};
  return ProcessCountOf(text) > 0 || std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

bool HasReference(const std::string& text) {
  return !InlineReferences(text, {}).unknown.empty();
}

LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words,
                                const std::map<std::string, std::string>& known,
                                const std::map<std::string, std::string>& settings) {
  const LauncherName name = FindLauncher(words);
  if (name.launcher == Launcher::kNone) {
    LaunchCommand command;
    command.program = words;
    return command;
  }
  LaunchCommand command = OptionReader(words, name, known).Read(settings);
  if (!IsOfMpi(command.launcher) || !command.problem.empty() ||
      !IsTorchLauncher(FindLauncher(command.program).launcher)) {
    return command;
  }
  const std::map<std::string, std::string> given(command.environment.begin(),
                                                 command.environment.end());
  return Within(command, ReadLaunchCommand(command.program, known, given));
}

}  // namespace lockstep::control
