#include "operator/convert/launch_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/base/plural.h"
#include "common/contract/executed_commands.h"
#include "common/contract/launcher.h"
#include "operator/convert/variable_references.h"

namespace lockstep::control {
namespace {

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
  std::string_view names;  // with blanks between them
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
const OptionGroup* OptionOf(Launcher launcher, std::string name) {
  const bool is_mpirun = launcher == Launcher::kMpirun;
  const auto groups = is_mpirun ? std::span<const OptionGroup>(kMpirunOptions)
                                : std::span<const OptionGroup>(kHorovodrunOptions);
  name = " " + (is_mpirun && name.starts_with("--") ? name.substr(1) : name) + " ";
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const OptionGroup& group) {
    return (" " + std::string(group.names) + " ").find(name) != std::string::npos;
  });
  return found == groups.end() || name.find(' ', 1) + 1 < name.size() ? nullptr : &*found;
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

template <std::size_t kCount>
bool IsOneOf(std::string_view text, const std::array<std::string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Launcher FindLauncher(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 5> kOfMpi = {
      "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "mpirun.real"};
  const std::string_view first = words.empty() ? "" : BaseName(words[0]);
  if (IsOneOf(first, kOfMpi)) {
    return Launcher::kMpirun;
  }
  return first == "horovodrun" ? Launcher::kHorovodrun : Launcher::kNone;
}

// mpirun or horovodrun in a script: its ranks would take the HOROVOD_RANK of the pod for theirs.
// Empty: there is none.
std::string ProblemOfScript(const std::vector<std::string>& command) {
  for (const std::vector<std::string>& words : ExecutedCommands(command)) {
    if (FindLauncher(words) != Launcher::kNone) {
      return words[0] +
             " found inside the command, expected it first, with the program behind it: "
             "its ranks would read the pod's HOROVOD_RANK as their own";
    }
  }
  return "";
}

// The first name in `text` of a variable that mpirun sets, of OpenMPI, MPICH, Intel and MVAPICH;
// empty: it has none.
std::string VariableOfMpirun(const std::string& text) {
  constexpr std::array<std::string_view, 5> kBeginnings = {
      "OMPI_COMM_WORLD_", "PMIX_RANK", "PMI_", "MPI_LOCAL", "MV2_COMM_WORLD_"};
  for (const std::string_view beginning : kBeginnings) {
    if (const std::size_t at = text.find(beginning); at != std::string::npos) {
      const auto end = std::find_if(
          text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), [](unsigned char c) {
            return std::isalnum(c) == 0 && c != '_';
          });
      return {text.begin() + static_cast<std::ptrdiff_t>(at), end};
    }
  }
  return "";
}

// Whether the program calls MPI itself, as far as its words tell: those of Python may use Horovod,
// and what a shell starts is not seen.
bool CallsMpi(const std::vector<std::string>& program) {
  constexpr std::array<std::string_view, 3> kShells = {"sh", "bash", "dash"};
  const std::string text = JoinedWords(program);
  const bool is_benchmark = std::any_of(program.begin(), program.end(), [](const auto& word) {
    return word.ends_with("_perf") || Contains(word, "_perf ");  // of nccl-tests
  });
  if (is_benchmark || Contains(text, "mpi4py")) {
    return true;
  }
  const bool may_be_horovods = Contains(text, "python") || Contains(text, ".py") ||
                               Contains(text, ".sh") || IsOneOf(BaseName(program[0]), kShells);
  return !may_be_horovods;
}

// Why every rank cannot run the program by itself; empty: it can.
std::string ProblemOf(const std::vector<std::string>& program, Launcher launcher) {
  constexpr std::array<std::string_view, 5> kOthers = {
      "torchrun", "accelerate", "deepspeed", "ds", "composer"};
  const std::string name(NameOf(launcher));
  const std::string_view first = BaseName(program[0]);
  if (StartsTorchrun(program) || IsOneOf(first, kOthers)) {
    return (StartsTorchrun(program) ? "torchrun" : std::string(first)) + " found behind " + name +
           ", expected the program itself: Lockstep starts every rank";
  }
  if (const std::string variable = VariableOfMpirun(JoinedWords(program)); !variable.empty()) {
    return variable + " found, which " + name +
           " alone sets, expected RANK, LOCAL_RANK, WORLD_SIZE or LOCAL_WORLD_SIZE";
  }
  if (launcher == Launcher::kMpirun && CallsMpi(program)) {
    return "\"" + program[0] +
           "\" found behind mpirun, expected a Python program that uses Horovod: MPI programs "
           "(nccl-tests, GROMACS) do not work without mpirun";
  }
  return "";
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
  OptionReader(const std::vector<std::string>& words,
               Launcher launcher,
               const std::map<std::string, std::string>& known)
      : words_(words), known_(known) {
    command_.launcher = launcher;
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
      return "no program found behind the options of " + words_[0];
    }
    if (std::find(command_.program.begin(), command_.program.end(), ":") !=
        command_.program.end()) {  // such as `mpirun -np 1 a : -np 1 b`
      return "several programs found behind " + words_[0] +
             ", with \":\" between them, expected one: every pod of a role runs the same";
    }
    return ProblemOf(command_.program, command_.launcher);
  }

  void ReadOption() {
    const std::string& word = words_[at_++];
    const std::size_t equals = word.find('=');
    const OptionGroup* const found = OptionOf(command_.launcher, word.substr(0, equals));
    if (found == nullptr) {
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
    if (equals != std::string::npos && found->value_count == 1) {
      values.push_back(word.substr(equals + 1));
    }
    while (static_cast<int>(values.size()) < found->value_count && at_ < words_.size()) {
      values.push_back(words_[at_++]);
    }
    if (static_cast<int>(values.size()) < found->value_count) {
      command_.problem = "the option " + word + " of " + words_[0] + " lacks its value";
      return;
    }
    const bool is_number = found->meaning == Meaning::kPerPod ||
                           found->meaning == Meaning::kCount || found->meaning == Meaning::kMapping;
    std::string written = word.substr(0, equals);
    for (const std::string& value : values) {
      written += " " + value;
    }
    if (is_number) {
      if (InlinedValue inlined = InlineReferences(values[0], known_); inlined.has_changed) {
        values[0] = std::move(inlined.text);
        written += " (= " + values[0] + ")";
      }
    }
    Heed(written, found->meaning, values);
  }

  void HeedCount(const std::string& written,
                 const std::string& value,
                 std::optional<int64_t>* count) {
    if (const int64_t number = ProcessCountOf(value); number > 0) {
      *count = number;
    } else if (HasReference(value)) {
      command_.unknown_counts.push_back(written);
    } else {
      command_.problem = written + " of " + words_[0] + " found, expected a number from 1 to 9999";
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

  void Heed(const std::string& written, Meaning meaning, const std::vector<std::string>& values) {
    switch (meaning) {
      case Meaning::kPerPod:
        HeedCount(written, values[0], &command_.processes_per_pod);
        return;
      case Meaning::kCount:
        HeedCount(written, values[0], &command_.process_count);
        return;
      case Meaning::kWorkingDirectory:
        command_.working_directory = values[0];
        return;
      case Meaning::kVariable:
        NoteVariable(values, &command_);
        return;
      case Meaning::kNames:
        NoteNames(values[0], &command_);
        return;
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
  const std::map<std::string, std::string>& known_;
  std::size_t at_ = 1;
  LaunchCommand command_;
};

}  // namespace

std::string_view NameOf(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "";
    case Launcher::kMpirun:
      return "mpirun";
    case Launcher::kHorovodrun:
      return "horovodrun";
  }
  return "";
}

std::string JoinedWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string RanksAskedFor(int64_t count) {
  return Plural(count, "rank") + (count == 1 ? " was" : " were") + " asked for";
}

int64_t ProcessCountOf(const std::string& text) {
  constexpr std::size_t kDigitsMax = 4;
  const bool is_count = !text.empty() && text.size() <= kDigitsMax &&
                        std::all_of(text.begin(), text.end(), [](unsigned char letter) {
                          return std::isdigit(letter) != 0;
                        });
  return is_count ? std::stoll(text) : 0;
}

bool HasReference(const std::string& text) {
  return !InlineReferences(text, {}).unknown.empty();
}

LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words,
                                const std::map<std::string, std::string>& known) {
  const Launcher launcher = FindLauncher(words);
  if (launcher == Launcher::kNone) {
    LaunchCommand command;
    command.program = words;
    command.problem = ProblemOfScript(words);
    return command;
  }
  return OptionReader(words, launcher, known).Read();
}

}  // namespace lockstep::control
