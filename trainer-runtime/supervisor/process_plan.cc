#include "trainer-runtime/supervisor/process_plan.h"

#include <utility>

namespace lockstep::runtime {

Result<std::vector<SupervisedProcess>> PlanProcesses(const WorkerEnvironment& environment,
                                                     const EnvironmentMap& inherited,
                                                     bool with_prefix) {
  std::vector<SupervisedProcess> processes;
  for (int local_rank = 0; local_rank < environment.processes; ++local_rank) {
    SupervisedProcess process;
    LOCKSTEP_ASSIGN_OR_RETURN(process.environment,
                              RenderEnvironmentForProcess(environment, local_rank));
    const bool has_tf_config = process.environment.count(env::kTfConfig) > 0;
    process.environment.insert(inherited.begin(), inherited.end());  // what is there stays
    if (!has_tf_config) {  // an image's or a source's: of peers that this job has not
      process.environment.erase(env::kTfConfig);
    }
    // A program that dies takes the lines with it that it has not written yet.
    process.environment.try_emplace("PYTHONUNBUFFERED", "1");
    if (environment.hung_after.has_value()) {  // so that the watchdog hears where it hangs
      process.environment.try_emplace("PYTHONFAULTHANDLER", "1");
    }
    std::string name = TaskName(environment.task);
    if (environment.rank.has_value()) {
      process.rank = *environment.rank + local_rank;
      name = "rank " + std::to_string(*process.rank);
    }
    process.prefix = with_prefix ? "[" + name + "] " : "";
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace lockstep::runtime
