#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/enum_names.h"

namespace lockstep {

// Who starts the processes of a pod.
enum class ProcessLauncher {
  kLockstep,  // the runtime: the command once for each process
  kTorchrun   // the command: the runtime starts it once, and torchrun in it starts the processes
};

inline constexpr EnumNames<ProcessLauncher, 2> kProcessLauncherNames = {{
    {ProcessLauncher::kLockstep, "Lockstep"},
    {ProcessLauncher::kTorchrun, "Torchrun"},
}};

// A program that starts the ranks of a job.
struct LauncherCall {
  std::string_view name;      // "torchrun", "mpirun", "horovodrun", "accelerate", "composer", ...
  std::size_t arguments = 0;  // where its arguments begin
};

// The launcher that a process with these words is: the program itself, or a Python interpreter with
// its script or module ("-m torch.distributed.run"), with its subcommand ("accelerate launch").
std::optional<LauncherCall> LauncherCallOf(const std::vector<std::string>& words);

// What torchrun is given on its command line.
struct TorchrunCall {
  // Its own options, up to the script that it starts: "--nproc_per_node" and the value, with "_" in
  // names, or nothing for those without a value. The last of several counts, as for torchrun.
  std::map<std::string, std::string, std::less<>> options;

  // Empty where the option is not there.
  std::string Option(std::string_view name) const;
};

// How many machines torchrun waits for under this value of --nnodes: 2 of "2" and of "2:4". Null: a
// value that it refuses.
std::optional<int> MachinesThatTorchrunNeeds(std::string_view nnodes);

// What torchrun is given by words of which those at `arguments` are its first.
TorchrunCall TorchrunOptions(const std::vector<std::string>& words, std::size_t arguments);

// What torchrun is given if a process with these words is torchrun.
std::optional<TorchrunCall> TorchrunCallOf(const std::vector<std::string>& words);

// The torchruns that a command is seen to start, by itself or in a text of `sh -c`, in order. What
// stands in a script of the image is not seen.
std::vector<TorchrunCall> TorchrunCalls(const std::vector<std::string>& command);

// Whether there is one.
bool StartsTorchrun(const std::vector<std::string>& command);

// Whether torchrun's name stands anywhere in the words of a command: it may be started by something
// that reads them.
bool MentionsTorchrun(const std::vector<std::string>& command);

}  // namespace lockstep
