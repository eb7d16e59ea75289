#include "operator/convert/launch_command.h"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/contract/command/executed_commands.h"
#include "common/contract/command/launcher.h"
#include "common/contract/text/text.h"
#include "operator/api/job/variable_references.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kMpirun = "mpirun";

// What an option of a launcher means to us.
enum class Meaning {
  kDropped,           // it is about what Lockstep does itself
  kPerPod,            // how many processes a pod runs
  kCount,             // how many there are in all
  kOnePerPod,         // a pod runs one
  kMapping,           // it may say how many a pod runs
  kWorkingDirectory,  // where the program starts
  kVariable,          // a variable of the program, by name
  kNames              // names of variables that are handed on
};

struct OptionGroup {
  int value_count = 0;  // words behind each
  Meaning meaning = Meaning::kDropped;
  std::string_view names;
};

// Names with one hyphen: mpirun takes one and two alike. Source: manuals of OpenMPI 4.1, MPICH 4.2
// and Intel MPI 2021.
constexpr std::array<OptionGroup, 11> kMpirunOptions = {{
    {1, Meaning::kCount, "-np -n -c"},
    {1, Meaning::kVariable, "-x"},
    {2, Meaning::kVariable, "-genv -env"},
    {0,
     Meaning::kDropped,
     "-genvall -allow-run-as-root -oversubscribe -bind-to-core -bind-to-none "
     "-nooversubscribe -tag-output -timestamp-output -report-bindings "
     "-display-map -display-allocation -verbose -v -q -prepend-rank -l"},
    {1, Meaning::kNames, "-genvlist -envlist"},
    {1, Meaning::kPerPod, "-N -npernode -ppn -perhost"},
    {0, Meaning::kOnePerPod, "-pernode"},
    {1, Meaning::kWorkingDirectory, "-wdir -wd"},
    {1,
     Meaning::kDropped,
     "-H -host -hosts -hostfile -machinefile -f -bind-to -rank-by -prefix "
     "-launcher -bootstrap -iface -output-filename"},
    {2, Meaning::kDropped, "-mca -gmca"},
    {1, Meaning::kMapping, "-map-by"},
}};

// Source: horovod.runner.launch, 0.28.
constexpr std::array<OptionGroup, 3> kHorovodrunOptions = {{
    {1, Meaning::kCount, "-np --num-proc"},
    {1,
     Meaning::kDropped,
     "--min-np --min-num-proc --max-np --max-num-proc --slots --slots-per-host "
     "--elastic-timeout --reset-limit --host-discovery-script -H --hosts "
     "-hostfile --hostfile -p --ssh-port -i --ssh-identity-file --start-timeout "
     "--network-interfaces --network-interface --output-filename --config-file "
     "--fusion-threshold-mb --cycle-time-ms --cache-capacity --timeline-filename "
     "--mpi-args --log-level --binding-args"},
    {0, Meaning::kDropped, "--autotune --verbose --disable-cache --gloo --mpi --jsrun --tcp"},
}};

// The group of options that has `name`; null for an unknown option.
const OptionGroup* OptionOf(const std::string& launcher, std::string_view name) {
  const bool is_mpirun = launcher == kMpirun;
  const auto groups = is_mpirun ? std::span<const OptionGroup>(kMpirunOptions)
                                : std::span<const OptionGroup>(kHorovodrunOptions);
  name.remove_prefix(is_mpirun && name.starts_with("--") ? 1 : 0);
  const auto found = std::ranges::find_if(
      groups, [&](const OptionGroup& group) { return IsListed(name, group.names); });
  return found == groups.end() ? nullptr : &*found;
}

bool GivesWay(const std::optional<LauncherCall>& call) {
  return call.has_value() && (call->name == kMpirun || call->name == "horovodrun");
}

// mpirun or horovodrun in a script: its ranks would take the HOROVOD_RANK of the pod for theirs.
// Empty: there is none.
std::string ProblemOfScript(const std::vector<std::string>& command) {
  for (const std::vector<std::string>& words : ExecutedCommands(command)) {
    if (GivesWay(LauncherCallOf(words))) {
      return words[0] +
             " found inside the command. Ranks that start there would use the pod's "
             "HOROVOD_RANK instead of their own. Begin the command with " +
             words[0] + ", followed by the program";
    }
  }
  return "";
}

// The first name in `text` of a variable that mpirun sets, of OpenMPI, MPICH, Intel and MVAPICH;
// empty: it has none.
std::string VariableOfMpirun(const std::string& text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  for (const char* const beginning :
       {"OMPI_COMM_WORLD_", "PMIX_RANK", "PMI_", "MPI_LOCAL", "MV2_COMM_WORLD_"}) {
    if (const std::size_t at = text.find(beginning); at != std::string::npos) {
      return text.substr(at, text.find_first_not_of(kLetters, at) - at);
    }
  }
  return "";
}

// Whether the program calls MPI itself, as far as it is seen: Python may use Horovod, and what a
// script starts is not seen.
bool CallsMpi(const std::vector<std::string>& program) {
  const std::string text = JoinedWords(program);
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  bool may_be_horovods = has("python") || has(".py") || has(".sh");
  for (const std::vector<std::string>& words : ExecutedCommands(program)) {
    if (std::ranges::any_of(words, [](const auto& word) { return word.ends_with("_perf"); })) {
      return true;  // of nccl-tests
    }
    may_be_horovods = may_be_horovods || IsListed(BaseName(words[0]), "sh bash dash");
  }
  return has("mpi4py") || !may_be_horovods;
}

// Why every rank cannot run the program by itself; empty: it can.
std::string ProblemOf(const std::vector<std::string>& program, const std::string& launcher) {
  for (const std::vector<std::string>& words : ExecutedCommands(program)) {
    if (const std::optional<LauncherCall> inner = LauncherCallOf(words); inner.has_value()) {
      return std::string(inner->name) + " found after " + launcher +
             ", expected the program itself: Lockstep starts every rank";
    }
  }
  if (const std::string variable = VariableOfMpirun(JoinedWords(program)); !variable.empty()) {
    return variable + " found, but only " + launcher +
           " sets this variable; expected RANK, LOCAL_RANK, WORLD_SIZE or LOCAL_WORLD_SIZE";
  }
  if (launcher == kMpirun && CallsMpi(program)) {
    return "\"" + program[0] +
           "\" found after mpirun, expected a Python program that uses Horovod: MPI programs "
           "(nccl-tests, GROMACS) do not work without mpirun";
  }
  return "";
}

// The launcher's options, one after the other, until its program begins.
class OptionReader {
 public:
  OptionReader(const std::vector<std::string>& words,
               const LauncherCall& call,
               const std::map<std::string, std::string>& known)
      : words_(words), name_(words[call.arguments - 1]), known_(known), at_(call.arguments) {
    command_.launcher = call.name;
  }

  LaunchCommand Read() {
    while (at_ < words_.size() && words_[at_].starts_with('-') && command_.problem.empty()) {
      ReadOption();
    }
    command_.program.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    if (command_.problem.empty()) {
      command_.problem = ProblemOfProgram();
    }
    return std::move(command_);
  }

 private:
  std::string ProblemOfProgram() const {
    if (command_.program.empty()) {
      return "no program found after the options of " + name_;
    }
    if (std::ranges::find(command_.program, ":") != command_.program.end()) {  // as in `a : b`
      return "several programs found after " + name_ +
             ", with \":\" between them, expected one: all pods of a role run the same program";
    }
    return ProblemOf(command_.program, command_.launcher);
  }

  void ReadOption() {
    const std::string& word = words_[at_++];
    const std::size_t equals = word.find('=');
    const OptionGroup* const found = OptionOf(command_.launcher, word.substr(0, equals));
    if (found == nullptr && equals != std::string::npos) {
      command_.dropped.push_back(word);
      return;
    }
    if (found == nullptr) {
      command_.problem = "the option " + word + " of " + name_ +
                         " is not known, so lockstep cannot tell where the program begins; remove "
                         "the option";
      return;
    }
    const auto value_count = static_cast<std::size_t>(found->value_count);
    std::vector<std::string> values;
    if (equals != std::string::npos && value_count == 1) {
      values.push_back(word.substr(equals + 1));
    }
    while (values.size() < value_count && at_ < words_.size()) {
      values.push_back(words_[at_++]);
    }
    if (values.size() < value_count) {
      command_.problem = "the option " + word + " of " + name_ + " has no value";
      return;
    }
    const std::string written =
        word.substr(0, equals) + (values.empty() ? "" : " ") + JoinedWords(values);
    Heed(written, found->meaning, values);
  }

  void HeedCount(std::string written, std::string value, std::optional<int64_t>* count) {
    InlinedText inlined = InlineReferences(value, known_);
    if (inlined.has_changed) {
      value = std::move(inlined.text);
      written += " (= " + value + ")";
    }
    if (const int64_t number = ProcessCountOf(value); number > 0) {
      *count = number;
    } else if (!inlined.unknown.empty()) {
      command_.unknown_counts.push_back(std::move(written));
    } else {
      command_.problem = written + " of " + name_ + " found, expected a number from 1 to 9999";
    }
  }

  // "ppr:2:node" says how many there are on a machine.
  void HeedMapping(const std::string& written, const std::string& value) {
    constexpr std::string_view kPerResource = "ppr:";
    const std::size_t end = value.find(':', kPerResource.size());
    if (value.starts_with(kPerResource) && end != std::string::npos &&
        (value.substr(end) == ":node" || value.substr(end).starts_with(":node:"))) {
      HeedCount(written,
                value.substr(kPerResource.size(), end - kPerResource.size()),
                &command_.processes_per_pod);
    }
  }

  void HeedVariable(const std::vector<std::string>& values) {
    const std::size_t equals = values[0].find('=');
    if (values.size() == 2) {
      command_.variables.emplace_back(values[0], values[1]);
    } else if (equals == std::string::npos) {
      command_.variables.emplace_back(values[0], std::nullopt);
    } else {
      command_.variables.emplace_back(values[0].substr(0, equals), values[0].substr(equals + 1));
    }
  }

  void HeedNames(const std::string& list) {
    std::istringstream in(list);
    for (std::string name; std::getline(in, name, ',');) {
      command_.variables.emplace_back(name, std::nullopt);
    }
  }

  void Heed(const std::string& written, Meaning meaning, const std::vector<std::string>& values) {
    switch (meaning) {
      case Meaning::kPerPod:
        return HeedCount(written, values[0], &command_.processes_per_pod);
      case Meaning::kCount:
        return HeedCount(written, values[0], &command_.process_count);
      case Meaning::kWorkingDirectory:
        command_.working_directory = values[0];
        return;
      case Meaning::kVariable:
        return HeedVariable(values);
      case Meaning::kNames:
        return HeedNames(values[0]);
      case Meaning::kOnePerPod:
        command_.processes_per_pod = 1;
        break;
      case Meaning::kMapping:
        HeedMapping(written, values[0]);
        break;
      case Meaning::kDropped:
        break;
    }
    command_.dropped.push_back(written);
  }

  const std::vector<std::string>& words_;
  const std::string& name_;  // as the command calls the launcher
  const std::map<std::string, std::string>& known_;
  std::size_t at_;
  LaunchCommand command_;
};

}  // namespace

std::string JoinedWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (&word == &words.front() ? "" : " ") + word;
  }
  return text;
}

int64_t ProcessCountOf(const std::string& text) {
  constexpr std::size_t kDigitsMax = 4;
  const bool is_count =
      !text.empty() && text.size() <= kDigitsMax && std::ranges::all_of(text, IsDigit);
  return is_count ? std::stoll(text) : 0;
}

LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words,
                                const std::map<std::string, std::string>& known) {
  if (const std::optional<LauncherCall> call = LauncherCallOf(words); GivesWay(call)) {
    return OptionReader(words, *call, known).Read();
  }
  LaunchCommand command;
  command.program = words;
  command.problem = ProblemOfScript(words);
  return command;
}

}  // namespace lockstep::control
