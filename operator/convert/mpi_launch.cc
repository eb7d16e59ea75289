#include "operator/convert/mpi_launch.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "common/base/plural.h"

namespace lockstep::control {

namespace {

// The slots of "-H a:2,b", 3; 0: it is told of no hosts.
int64_t SlotsOfHosts(const LaunchCommand& command) {
  int64_t slots = 0;
  for (const std::string& option : command.dropped) {
    const std::size_t blank = option.find(' ');
    const std::string name = option.substr(0, blank);
    if (blank == std::string::npos || (name != "-H" && name != "-host" && name != "--host" &&
                                       name != "-hosts" && name != "--hosts")) {
      continue;
    }
    std::istringstream hosts(option.substr(blank + 1));
    for (std::string host; std::getline(hosts, host, ',');) {
      const std::size_t colon = host.rfind(':');
      slots += colon == std::string::npos
                   ? 1
                   : std::max<int64_t>(ProcessCountOf(host.substr(colon + 1)), 1);
    }
  }
  return slots;
}

}  // namespace

bool IsMpiLaunch(const LaunchCommand& command) {
  return command.launcher == Launcher::kMpirun || command.launcher == Launcher::kHorovodrun;
}

void SetMpiProcesses(const LaunchCommand& command,
                     const MpiSlots* slots,
                     ConvertedPod* pod,
                     Json* role,
                     Conversion* conversion) {
  const int64_t in_command = ProcessCountOf(command.processes_per_pod);
  int64_t count = in_command;
  if (in_command == 0) {
    count = slots != nullptr ? slots->count.value_or(1) : command.process_count.value_or(1);
  }
  (*role)["processes"] = count;
  const bool is_of_slots = in_command == 0 && slots != nullptr;
  pod->origins.push_back({"processes", is_of_slots ? slots->field : command.path});
  if (in_command > 0 && slots != nullptr && slots->count.value_or(in_command) != in_command) {
    conversion->notes.push_back(
        {slots->field, "not kept: the launcher's command says " + std::to_string(in_command)});
  }
}

void NoteMpiLaunch(const LaunchCommand& command,
                   int64_t ranks,
                   int64_t per_pod,
                   bool has_slots,
                   Conversion* conversion) {
  if (command.launcher == Launcher::kMpirun) {
    conversion->notes.push_back(
        {command.path,
         "a program that calls MPI itself finds none: it needs mpirun. One that uses Horovod runs, "
         "with Gloo"});
  }
  const std::string job_has = "the job has " + std::to_string(ranks) + ", " +
                              std::to_string(per_pod) +
                              " in each of its pods: set the role's processes for another number";
  for (const std::string& option : command.unknown_counts) {
    conversion->notes.push_back(
        {command.path,
         option + ": how many ranks that is cannot be told from this file; " + job_has});
  }
  if (command.process_count.has_value() && *command.process_count != ranks) {
    conversion->notes.push_back(
        {command.path, RanksAskedFor(*command.process_count) + "; " + job_has});
  }
  const bool is_unsaid = !command.process_count.has_value() && command.unknown_counts.empty() &&
                         command.processes_per_pod.empty();
  const int64_t on_hosts = SlotsOfHosts(command);
  if (has_slots && is_unsaid && on_hosts > 0 && on_hosts != ranks) {
    conversion->notes.push_back(
        {command.path, RanksAskedFor(on_hosts) + " by the hosts and their slots; " + job_has});
  }
  if (!has_slots && is_unsaid) {
    conversion->notes.push_back(
        {command.path,
         std::string(NameOf(command.launcher)) +
             " that is told no number starts as many ranks as the pod has cores; " + job_has});
  }
}

void NoteOuterCount(const LaunchCommand& command,
                    int64_t pods,
                    int64_t slots,
                    Conversion* conversion) {
  const int64_t per_pod = ProcessCountOf(command.outer_per_pod);
  const int64_t started = command.outer_count.value_or(pods * (per_pod > 0 ? per_pod : slots));
  if (command.outer != Launcher::kNone && started != pods) {
    conversion->notes.push_back({command.path,
                                 std::string(NameOf(command.outer)) + " was to start " +
                                     std::string(NameOf(command.launcher)) + " " +
                                     Plural(started, "time") +
                                     "; the job has the processes of one in each of its pods"});
  }
}

}  // namespace lockstep::control
