#pragma once

#include <memory>
#include <mutex>

#include "common/contract/environment/environment.h"
#include "common/contract/status/control_message.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/cmd/ps_decisions.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/cmd/train_command.h"
#include "trainer-runtime/ps/ps_server.h"

namespace lockstep::runtime {

// A ps of a job: serves its shards until it is asked to stop, has a successor, or has lost a shard.
class PsProcess {
 public:
  PsProcess(WorkerEnvironment environment, TrainingSpec spec, TrainCommandOptions options)
      : environment_(std::move(environment)),
        spec_(std::move(spec)),
        options_(std::move(options)) {}

  // Returns the process's exit code. Thread: the main thread; once.
  int Run();

 private:
  Result<Ending> Serve();
  Status Start();
  void OnControl(const ControlMessage& message);

  WorkerEnvironment environment_;
  TrainingSpec spec_;
  TrainCommandOptions options_;
  std::mutex mutex_;                  // the service's thread asks for the server before it exists
  std::unique_ptr<PsServer> server_;  // guarded by mutex_ while it is being made
  std::unique_ptr<RuntimeService> service_;  // last: its thread uses the others
};

}  // namespace lockstep::runtime
