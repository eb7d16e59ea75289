#pragma once

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

// Whether the words of a command, or a script among them, name torchrun: as a program, or as one of
// its modules torch.distributed.run and torch.distributed.launch.
bool NamesTorchrun(const std::vector<std::string>& command);

}  // namespace lockstep
