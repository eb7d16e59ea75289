#include "trainer-runtime/supervisor/process_plan.h"

#include <algorithm>
#include <utility>

#include "common/contract/command/launcher.h"
#include "common/contract/environment/torch_variables.h"
#include "trainer-runtime/supervisor/hang/ras_client.h"

namespace lockstep::runtime {
namespace {

// torchrun reads each of its options from "PET_" and the option's name where no argument says it.
// `calls`: those that are seen; with --standalone torchrun would wait for pods that it never meets.
void SetForTorchrun(const WorkerEnvironment& environment,
                    const std::vector<TorchrunCall>& calls,
                    EnvironmentMap* variables) {
  variables->try_emplace("PET_NPROC_PER_NODE", std::to_string(environment.processes));
  // As current releases look; torch 1.13 does every 5 s, and peers tell of a loss before it does.
  variables->try_emplace("PET_MONITOR_INTERVAL", "0.1");
  if (!environment.rank.has_value() || environment.master.host.empty()) {
    return;
  }
  const bool is_alone = !calls.empty() && std::ranges::all_of(calls, [](const TorchrunCall& call) {
    return call.options.contains("--standalone");
  });
  const int pods = is_alone ? 1 : environment.world_size / environment.processes;
  variables->try_emplace("PET_NNODES", std::to_string(pods));
  variables->try_emplace("PET_NODE_RANK",
                         std::to_string(*environment.rank / environment.processes));
  variables->try_emplace("PET_MASTER_ADDR", environment.master.host);
  variables->try_emplace("PET_MASTER_PORT", std::to_string(environment.master.port));
  variables->try_emplace("PET_RDZV_ID",
                         environment.job_uid + "-" + std::to_string(environment.attempt.value()));
}

}  // namespace

Result<std::vector<SupervisedProcess>> PlanProcesses(const WorkerEnvironment& environment,
                                                     const EnvironmentMap& inherited,
                                                     const std::vector<std::string>& command,
                                                     bool with_prefix) {
  std::vector<SupervisedProcess> processes;
  const std::vector<TorchrunCall> calls = TorchrunCalls(command);
  const bool has_torchrun = environment.launcher.has_value()
                                ? environment.launcher == ProcessLauncher::kTorchrun
                                : !calls.empty();
  const int process_count = has_torchrun ? 1 : environment.processes;
  for (int local_rank = 0; local_rank < process_count; ++local_rank) {
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
      // Another job's NCCL would answer at the port that is usual.
      process.environment.try_emplace(kRasAddress,
                                      "localhost:" + std::to_string(RasPort(environment.job_uid)));
    }
    if (environment.rank.has_value()) {
      SetTorchVariables(environment.hung_after, &process.environment);
    }
    const bool may_start_it = process_count == 1 && environment.rank.has_value() &&
                              environment.launcher != ProcessLauncher::kLockstep;
    if (has_torchrun || may_start_it) {
      SetForTorchrun(environment, calls, &process.environment);
    }
    std::string name = TaskName(environment.task);
    if (environment.rank.has_value() && !has_torchrun) {
      process.rank = *environment.rank + local_rank;
      name = "rank " + std::to_string(*process.rank);
    }
    process.prefix = with_prefix ? "[" + name + "] " : "";
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace lockstep::runtime
