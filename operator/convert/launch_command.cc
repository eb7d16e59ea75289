#include "operator/convert/launch_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>

namespace lockstep::control {
namespace {

// What an option of a launcher means to us.
enum class Meaning { kDropped, kPerPod, kCount, kVariable, kNames, kModule, kNoPython };

struct LauncherOption {
  int value_count = 0;  // words behind it
  Meaning meaning = Meaning::kDropped;
};

using OptionTable = std::map<std::string_view, LauncherOption>;

// Names with underscores; torchrun takes hyphens too. Source: torch.distributed.run, 2.9.
const OptionTable& TorchrunOptions() {
  static const OptionTable table = {
      {"--nnodes", {1, {}}},
      {"--nproc_per_node", {1, Meaning::kPerPod}},
      {"--rdzv_backend", {1, {}}},
      {"--rdzv_endpoint", {1, {}}},
      {"--rdzv_id", {1, {}}},
      {"--rdzv_conf", {1, {}}},
      {"--standalone", {0, {}}},
      {"--max_restarts", {1, {}}},
      {"--monitor_interval", {1, {}}},
      {"--start_method", {1, {}}},
      {"--event_log_handler", {1, {}}},
      {"--role", {1, {}}},
      {"-m", {0, Meaning::kModule}},
      {"--module", {0, Meaning::kModule}},
      {"--no_python", {0, Meaning::kNoPython}},
      {"--log_dir", {1, {}}},
      {"-r", {1, {}}},
      {"--redirects", {1, {}}},
      {"-t", {1, {}}},
      {"--tee", {1, {}}},
      {"--local_ranks_filter", {1, {}}},
      {"--node_rank", {1, {}}},
      {"--master_addr", {1, {}}},
      {"--master_port", {1, {}}},
      {"--local_addr", {1, {}}},
      {"--logs_specs", {1, {}}},
      {"--numa_binding", {1, {}}},
      {"--use_env", {0, {}}},  // of torch.distributed.launch
  };
  return table;
}

// Names with one hyphen: mpirun takes one and two alike. Source: manuals of OpenMPI 4.1, MPICH 4.2
// and Intel MPI 2021.
const OptionTable& MpirunOptions() {
  static const OptionTable table = {
      {"-np", {1, Meaning::kCount}},
      {"-n", {1, Meaning::kCount}},
      {"-c", {1, Meaning::kCount}},
      {"-x", {1, Meaning::kVariable}},
      {"-genv", {2, Meaning::kVariable}},
      {"-env", {2, Meaning::kVariable}},
      {"-genvall", {0, {}}},
      {"-genvlist", {1, Meaning::kNames}},
      {"-envlist", {1, Meaning::kNames}},
      {"-N", {1, {}}},
      {"-npernode", {1, {}}},
      {"-ppn", {1, {}}},
      {"-perhost", {1, {}}},
      {"-H", {1, {}}},
      {"-host", {1, {}}},
      {"-hosts", {1, {}}},
      {"-hostfile", {1, {}}},
      {"-machinefile", {1, {}}},
      {"-f", {1, {}}},
      {"-mca", {2, {}}},
      {"-gmca", {2, {}}},
      {"-bind-to", {1, {}}},
      {"-map-by", {1, {}}},
      {"-rank-by", {1, {}}},
      {"-prefix", {1, {}}},
      {"-launcher", {1, {}}},
      {"-bootstrap", {1, {}}},
      {"-iface", {1, {}}},
      {"-output-filename", {1, {}}},
      {"-allow-run-as-root", {0, {}}},
      {"-oversubscribe", {0, {}}},
      {"-bind-to-core", {0, {}}},
      {"-bind-to-none", {0, {}}},
      {"-nooversubscribe", {0, {}}},
      {"-tag-output", {0, {}}},
      {"-timestamp-output", {0, {}}},
      {"-report-bindings", {0, {}}},
      {"-display-map", {0, {}}},
      {"-display-allocation", {0, {}}},
      {"-verbose", {0, {}}},
      {"-v", {0, {}}},
      {"-q", {0, {}}},
      {"-prepend-rank", {0, {}}},
      {"-l", {0, {}}},
  };
  return table;
}

// Source: horovod.runner.launch, 0.28.
const OptionTable& HorovodrunOptions() {
  static const OptionTable table = {
      {"-np", {1, Meaning::kCount}},
      {"--num-proc", {1, Meaning::kCount}},
      {"--min-np", {1, {}}},
      {"--min-num-proc", {1, {}}},
      {"--max-np", {1, {}}},
      {"--max-num-proc", {1, {}}},
      {"--slots", {1, {}}},
      {"--slots-per-host", {1, {}}},
      {"--elastic-timeout", {1, {}}},
      {"--reset-limit", {1, {}}},
      {"--host-discovery-script", {1, {}}},
      {"-H", {1, {}}},
      {"--hosts", {1, {}}},
      {"-hostfile", {1, {}}},
      {"--hostfile", {1, {}}},
      {"-p", {1, {}}},
      {"--ssh-port", {1, {}}},
      {"-i", {1, {}}},
      {"--ssh-identity-file", {1, {}}},
      {"--start-timeout", {1, {}}},
      {"--network-interfaces", {1, {}}},
      {"--network-interface", {1, {}}},
      {"--output-filename", {1, {}}},
      {"--config-file", {1, {}}},
      {"--fusion-threshold-mb", {1, {}}},
      {"--cycle-time-ms", {1, {}}},
      {"--cache-capacity", {1, {}}},
      {"--timeline-filename", {1, {}}},
      {"--mpi-args", {1, {}}},
      {"--log-level", {1, {}}},
      {"--binding-args", {1, {}}},
      {"--autotune", {0, {}}},
      {"--verbose", {0, {}}},
      {"--disable-cache", {0, {}}},
      {"--gloo", {0, {}}},
      {"--mpi", {0, {}}},
      {"--jsrun", {0, {}}},
      {"--tcp", {0, {}}},
  };
  return table;
}

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
};

LauncherName NameOf(const std::vector<std::string>& words) {
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
  constexpr std::array<std::string_view, 3> kModules = {
      "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.run"};
  if (words.size() > 2 && IsPython(words[0]) && words[1] == "-m" &&
      std::find(kModules.begin(), kModules.end(), words[2]) != kModules.end()) {
    return {Launcher::kTorchrun, 3, words[0]};
  }
  return {};
}

const OptionTable& TableOf(Launcher launcher) {
  return launcher == Launcher::kTorchrun ? TorchrunOptions()
         : launcher == Launcher::kMpirun ? MpirunOptions()
                                         : HorovodrunOptions();
}

// The option as its launcher's table has it.
std::string Canonical(std::string name, Launcher launcher) {
  if (launcher == Launcher::kTorchrun && name.starts_with("--")) {
    std::replace(name.begin() + 2, name.end(), '-', '_');
  }
  if (launcher == Launcher::kMpirun && name.starts_with("--")) {
    name.erase(0, 1);
  }
  return name;
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

void NoteCount(const std::string& text, LaunchCommand* command) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size()) {
    command->process_count = count;
  } else {
    command->dropped.push_back(text);
  }
}

// The launcher's options, one after the other, until its program begins.
class OptionReader {
 public:
  OptionReader(const std::vector<std::string>& words, const LauncherName& name)
      : words_(words), at_(name.word_count), python_(name.python) {
    command_.launcher = name.launcher;
  }

  LaunchCommand Read() {
    while (at_ < words_.size() && words_[at_].starts_with('-') && command_.problem.empty()) {
      ReadOption();
    }
    if (command_.problem.empty() && at_ >= words_.size()) {
      command_.problem = "no program found behind the options of " + words_[0];
    }
    if (command_.launcher == Launcher::kTorchrun && has_python_) {
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
    const std::string name = Canonical(word.substr(0, equals), command_.launcher);
    const OptionTable& table = TableOf(command_.launcher);
    const auto found = table.find(name);
    if (found == table.end()) {
      if (equals == std::string::npos) {
        command_.problem =
            "the option " + word + " of " + words_[0] +
            " is not known, so it cannot be told where the program begins; remove it";
      } else {
        command_.dropped.push_back(word);
      }
      return;
    }
    std::vector<std::string> values;
    if (equals != std::string::npos && found->second.value_count == 1) {
      values.push_back(word.substr(equals + 1));
    }
    while (static_cast<int>(values.size()) < found->second.value_count && at_ < words_.size()) {
      values.push_back(words_[at_++]);
    }
    if (static_cast<int>(values.size()) < found->second.value_count) {
      command_.problem = "the option " + word + " of " + words_[0] + " lacks its value";
      return;
    }
    Heed(word.substr(0, equals), found->second.meaning, values);
  }

  void Heed(const std::string& name, Meaning meaning, const std::vector<std::string>& values) {
    switch (meaning) {
      case Meaning::kPerPod:
        command_.processes_per_pod = values[0];
        return;
      case Meaning::kCount:
        NoteCount(values[0], &command_);
        return;
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
    std::string text = name;
    for (const std::string& value : values) {
      text += " " + value;
    }
    command_.dropped.push_back(std::move(text));
  }

  const std::vector<std::string>& words_;
  std::size_t at_;
  std::string python_;
  bool is_module_ = false;
  bool has_python_ = true;
  LaunchCommand command_;
};

}  // namespace

LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words) {
  const LauncherName name = NameOf(words);
  if (name.launcher == Launcher::kNone) {
    LaunchCommand command;
    command.program = words;
    return command;
  }
  return OptionReader(words, name).Read();
}

bool MentionsLauncher(const std::string& text) {
  constexpr std::array<std::string_view, 5> kNames = {
      "torchrun", "torch.distributed.run", "torch.distributed.launch", "mpirun", "horovodrun"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
    return text.find(name) != std::string::npos;
  });
}

}  // namespace lockstep::control
