#include "operator/convert/mpi_launch.h"

#include "operator/convert/torch_processes.h"

namespace lockstep::control {

bool IsMpiLaunch(const LaunchCommand& command) {
  return command.launcher == Launcher::kMpirun || command.launcher == Launcher::kHorovodrun;
}

void NoteMpiLaunch(const LaunchCommand& command,
                   int64_t ranks,
                   const std::string& command_path,
                   Conversion* conversion) {
  if (command.launcher == Launcher::kMpirun) {
    conversion->notes.push_back(
        {command_path,
         "a program that calls MPI itself finds none: it needs mpirun. One that uses Horovod runs, "
         "with Gloo"});
  }
  if (command.process_count.has_value() && *command.process_count != ranks) {
    const int64_t in_command = ProcessCountOf(command.processes_per_pod);
    conversion->notes.push_back(
        {command_path,
         std::to_string(*command.process_count) + " ranks were asked for; the job has " +
             std::to_string(ranks) +
             (in_command > 0 ? ", " + std::to_string(in_command) + " in each of its workers"
                             : std::string(", as many as its workers have slots"))});
  }
}

}  // namespace lockstep::control
