#include "operator/convert/mpi_launch.h"

#include <algorithm>

#include "common/base/plural.h"

namespace lockstep::control {
namespace {

int64_t RanksOf(std::span<const ConvertedReplica> roles) {
  int64_t ranks = 0;
  for (const auto& [role, pod, command] : roles) {
    const int64_t by_default = std::max<int64_t>(pod.gpu_count(), 1);
    ranks += role.at("name") == "evaluator"
                 ? 0
                 : role.at("replicas").get<int64_t>() * role.value("processes", by_default);
  }
  return ranks;
}

void NoteMpiLaunch(const ConvertedReplica& replica,
                   int64_t ranks,
                   bool has_slots,
                   Conversion* conversion) {
  const LaunchCommand& command = replica.command;
  const auto note = [&](const std::string& text) {
    conversion->notes.push_back({command.path, text});
  };
  if (command.launcher == "mpirun") {
    note("MPI programs (nccl-tests, GROMACS) will not work; Horovod will, with Gloo");
  }
  const std::string job_has = "the job has " + std::to_string(ranks) + ", " +
                              DumpJson(replica.role.at("processes")) +
                              " in each of its pods; to change that, set the role's processes";
  for (const std::string& option : command.unknown_counts) {
    note(option + ": the number of ranks is not known from this file; " + job_has);
  }
  if (const int64_t count = command.process_count.value_or(ranks); count != ranks) {
    note(Plural(count, "rank") + (count == 1 ? " was" : " were") + " requested; " + job_has);
  }
  const bool is_unsaid = !command.process_count.has_value() && command.unknown_counts.empty() &&
                         !command.processes_per_pod.has_value();
  if (!has_slots && is_unsaid) {
    note("without a number, " + command.launcher + " starts one rank for each core of the pod; " +
         job_has);
  }
}

}  // namespace

void SetMpiProcesses(const MpiSlots* slots, ConvertedReplica* replica, Conversion* conversion) {
  const LaunchCommand& command = replica->command;
  const std::optional<int64_t>& in_command = command.processes_per_pod;
  const std::optional<int64_t>& unless_there =
      slots != nullptr ? slots->count : command.process_count;
  replica->role["processes"] = in_command.value_or(unless_there.value_or(1));
  const bool is_of_slots = !in_command.has_value() && slots != nullptr;
  replica->pod.origins.push_back({"processes", is_of_slots ? slots->field : command.path});
  if (in_command.has_value() && slots != nullptr &&
      slots->count.value_or(*in_command) != *in_command) {
    conversion->notes.push_back(
        {slots->field, "not kept: the launcher's command says " + std::to_string(*in_command)});
  }
}

bool NoteMpiLaunches(std::span<const ConvertedReplica> roles,
                     bool has_slots,
                     Conversion* conversion) {
  bool is_of_mpi = false;
  for (const ConvertedReplica& one : roles) {
    if (one.command.is_of_mpi()) {
      is_of_mpi = true;
      NoteMpiLaunch(one, RanksOf(roles), has_slots, conversion);
    }
  }
  return is_of_mpi;
}

}  // namespace lockstep::control
