#pragma once

#include <cstdint>
#include <string>

#include "operator/convert/conversion.h"
#include "operator/convert/launch_command.h"

namespace lockstep::control {

// Whether the program is one of MPI or Horovod, by its launcher.
bool IsMpiLaunch(const LaunchCommand& command);

// What is to be said of a program that mpirun or horovodrun would start from `command_path`, in a
// job of `ranks`: that MPI itself is gone, and where another count was asked for.
void NoteMpiLaunch(const LaunchCommand& command,
                   int64_t ranks,
                   const std::string& command_path,
                   Conversion* conversion);

}  // namespace lockstep::control
