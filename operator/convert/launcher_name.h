#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/launch_command.h"

namespace lockstep::control {

// Which launcher a command begins with, and how it is called there.
struct LauncherName {
  Launcher launcher = Launcher::kNone;
  std::size_t word_count = 1;            // that name it
  std::string python = "python3";        // what it starts programs of Python with
  std::string local_rank_argument = {};  // as LaunchCommand has it
};

// "python3", "/usr/bin/python", ...
bool IsPython(std::string_view word);

// The launcher of the command `words`, also as `python -m MODULE`; kNone: it begins with none.
LauncherName FindLauncher(const std::vector<std::string>& words);

}  // namespace lockstep::control
