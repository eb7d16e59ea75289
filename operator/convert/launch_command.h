#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::control {

enum class Launcher { kNone, kTorchrun, kMpirun, kHorovodrun, kAccelerate, kDeepspeed };

// Which pods a launcher starts several processes in, where it is told to.
enum class PodsWithSeveral { kAll, kThoseWithDevices, kNone };

// "torchrun", "accelerate launch", ...; empty of none.
std::string_view NameOf(Launcher launcher);

// Whether it starts programs of PyTorch: a pod's processes, which find their peers by variables.
bool IsTorchLauncher(Launcher launcher);

// On how many machines a launcher trains; two numbers where torchrun may lose and gain some.
struct MachineRange {
  int64_t min = 1;
  int64_t max = 1;
};

// What torchrun takes for it, "2" or "1:4"; null: it refuses that.
std::optional<MachineRange> MachineRangeOf(const std::string& text);

// A command that starts a program on many ranks, taken apart. Lockstep starts every rank itself, so
// what is wanted is the program.
struct LaunchCommand {
  Launcher launcher = Launcher::kNone;
  std::vector<std::string> program{};  // without a launcher: the command as it is
  std::string path{};                  // of the field of the foreign manifest where it stands
  // "4", "gpu" of torchrun, "$(NAME)" of torchrun and deepspeed where the number is not in the
  // file; empty: not said.
  std::string processes_per_pod{};
  std::optional<int64_t> process_count{};  // in all; of torchrun and deepspeed none
  std::optional<MachineRange> machines{};  // of torchrun, accelerate and deepspeed
  std::string unknown_machines{};          // the option, where its number is not in the file
  bool names_machines = false;             // of torchrun and deepspeed: it is told of the others
  // The job's operator tells torchrun, and accelerate by it, of machines and processes, unless the
  // command does.
  bool is_told_by_operator = false;
  std::vector<std::string> heeded_variables{};  // of torchrun's settings, those that were heeded
  std::vector<std::string> unknown_counts{};    // options whose numbers are not in the file
  // mpirun or horovodrun that starts the launcher, if one does, and how many of it.
  Launcher outer = Launcher::kNone;
  std::optional<int64_t> outer_count{};
  std::string outer_per_pod{};
  std::string working_directory{};  // of the program, where mpirun says one
  // accelerate starts several in a pod with more than one device, with --multi_gpu in each, and
  // with --cpu in none.
  PodsWithSeveral pods_with_several = PodsWithSeveral::kAll;
  std::vector<std::pair<std::string, std::string>> environment{};  // variables given on its line
  std::vector<std::string> handed_on{};  // names of variables whose values the launcher's pod has
  std::vector<std::string> dropped{};    // its other options, as written
  // What the launcher called the local rank that it gave the program as an argument,
  // "--local_rank"; empty: it gave it none.
  std::string local_rank_argument{};
  bool may_launch = false;  // it is a shell's script, say, that seems to start one
  std::string problem{};    // why the program cannot be told; empty: it can
};

// Reads torchrun (also as `python -m torch.distributed.run`), mpirun and mpiexec of OpenMPI, MPICH
// and Intel, horovodrun, accelerate launch and deepspeed. An option that it does not know makes it
// unsure where the program begins, and one that reaches the program by the launcher alone cannot be
// kept: that is its problem.
// A launcher of PyTorch's that mpirun or horovodrun starts is the command's launcher. `known`: what
// the container's variables say, for the numbers that options refer to, as InlineReferences has it.
// `settings`: variables that torchrun reads in the place of options which its command line lacks,
// such as PET_NNODES; others may be among them.
LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words,
                                const std::map<std::string, std::string>& known = {},
                                const std::map<std::string, std::string>& settings = {});

// "1 rank was asked for".
std::string RanksAskedFor(int64_t count);

// The number of processes that `text` is, from 1 to 9999; 0: none.
int64_t ProcessCountOf(const std::string& text);

// Whether `text` is what torchrun takes for how many processes a pod has: a number, "auto", "cpu",
// or a sort of devices such as "gpu".
bool IsCountOfTorchrun(const std::string& text);

// Whether `text` has the value of a variable in it, "$(NAME)".
bool HasReference(const std::string& text);

}  // namespace lockstep::control
