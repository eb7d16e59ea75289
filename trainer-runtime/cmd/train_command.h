#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/cmd/stop_signal.h"
#include "trainer-runtime/devices/device.h"

namespace lockstep::runtime {

// One process of a pod with several, below a supervisor.
struct ProcessPlace {
  int local_rank = 0;
  int start = 0;  // processes that stood for this rank in the pod before
};

struct TrainCommandOptions {
  std::string engine_path;  // the engine plug-in; empty: searched
  Logger* logger = nullptr;
  StopSignal* stop = nullptr;
  std::vector<GpuDevice> devices;    // of this pod, shown in the status
  bool nccl_may_block = false;       // LoadingOptions; known of the variables
  bool nccl_chooses_network = true;  // NcclChoosesNetwork; likewise
  // Which of the pod's processes this is, where it has several; null: the only one.
  std::optional<ProcessPlace> place = std::nullopt;
};

// `lockstep-runtime train`: trains this process's share of the job that `variables` describe, and
// meets the other ranks again after every loss, until the end. Returns the process's exit code, as
// common/contract/status/exit_code.h lists them. Thread: the main thread.
int TrainCommand(const EnvironmentMap& variables, const TrainCommandOptions& options);

}  // namespace lockstep::runtime
