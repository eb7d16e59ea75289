#include "operator/convert/mpi_launch.h"

#include <string>

#include "operator/convert/torch_processes.h"

namespace lockstep::control {

bool IsMpiLaunch(const LaunchCommand& command) {
  return command.launcher != Launcher::kNone;
}

void SetMpiProcesses(const LaunchCommand& command,
                     const MpiSlots* slots,
                     ConvertedPod* pod,
                     Json* role,
                     Conversion* conversion) {
  const std::optional<int64_t>& in_command = command.processes_per_pod;
  const std::optional<int64_t>& unless_there =
      slots != nullptr ? slots->count : command.process_count;
  (*role)["processes"] = in_command.value_or(unless_there.value_or(1));
  const bool is_of_slots = !in_command.has_value() && slots != nullptr;
  pod->origins.push_back({"processes", is_of_slots ? slots->field : command.path});
  if (in_command.has_value() && slots != nullptr &&
      slots->count.value_or(*in_command) != *in_command) {
    conversion->notes.push_back(
        {slots->field, "not kept: the launcher's command says " + std::to_string(*in_command)});
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
         "MPI programs (nccl-tests, GROMACS) will not work; Horovod will, with Gloo"});
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
                         !command.processes_per_pod.has_value();
  if (!has_slots && is_unsaid) {
    conversion->notes.push_back(
        {command.path,
         std::string(NameOf(command.launcher)) +
             " that is told no number starts as many ranks as the pod has cores; " + job_has});
  }
}

bool NoteMpiLaunches(const std::vector<ConvertedReplica>& roles, Conversion* conversion) {
  int64_t ranks = 0;
  for (const ConvertedReplica& one : roles) {
    ranks += one.role.at("name") == "evaluator" ? 0 : RanksOf(one.role, one.pod);
  }
  bool is_of_mpi = false;
  for (const ConvertedReplica& one : roles) {
    if (IsMpiLaunch(one.command)) {
      is_of_mpi = true;
      NoteMpiLaunch(one.command, ranks, one.role.at("processes").get<int64_t>(), false, conversion);
    }
  }
  return is_of_mpi;
}

}  // namespace lockstep::control
