#include "trainer-runtime/cmd/run_command.h"

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "common/contract/exit_code.h"
#include "trainer-runtime/cmd/pod_devices.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {
namespace {

// Whether any variable of ours is set: then the program is a worker of a job.
bool IsWorkerOfJob(const EnvironmentMap& variables) {
  const auto first = variables.lower_bound("LOCKSTEP_JOB");
  return first != variables.end() && first->first.rfind("LOCKSTEP_JOB", 0) == 0;
}

SuperviseOptions BaseOptions(const RunCommandOptions& options) {
  SuperviseOptions supervise;
  supervise.command = options.command;
  supervise.logger = options.logger;
  return supervise;
}

int RunAlone(const EnvironmentMap& variables, const RunCommandOptions& options) {
  SuperviseOptions supervise = BaseOptions(options);
  supervise.processes = {{variables, "", std::nullopt}};
  return Supervise(supervise);
}

// Shows the pod's state on the board while the programs run.
void ShowEvent(const SupervisorEvent& event, StatusBoard* board) {
  switch (event.kind) {
    case SupervisorEvent::Kind::kStarted:
      board->SetPhase(Phase::kTraining);
      return;
    case SupervisorEvent::Kind::kStopping:
    case SupervisorEvent::Kind::kKilling:
      board->SetPhase(Phase::kStopping);
      return;
    case SupervisorEvent::Kind::kEnded:
      return;
  }
}

// The program finds the folder for its checkpoints there. Its own trouble with it is clearer than
// ours: a program that writes none must not fail here.
void MakeCheckpointDirectory(const std::string& directory, Logger* logger) {
  if (directory.empty() || ::mkdir(directory.c_str(), 0777) == 0 || errno == EEXIST) {
    return;
  }
  const Error error = SystemError(errno, "making " + directory);
  logger->Warn("no folder for checkpoints", {{"error", error.ToString()}});
}

int FailAsUserError(const WorkerEnvironment* environment, const Error& error, Logger* logger) {
  logger->Error("the command was not started", {{"error", error.ToString()}});
  if (environment != nullptr) {
    TerminationMessage message;
    message.outcome = Outcome::kPermanent;
    message.reason = error.ToString();
    WriteTerminationMessage(*environment, message, logger);
  }
  return kExitUserError;
}

}  // namespace

int RunCommand(const EnvironmentMap& variables, const RunCommandOptions& options) {
  BlockSupervisedSignals();
  if (!IsWorkerOfJob(variables)) {
    return RunAlone(variables, options);
  }
  const Result<WorkerEnvironment> environment = ParseEnvironment(variables);
  if (!environment.ok()) {
    return FailAsUserError(nullptr, environment.error(), options.logger);
  }
  Result<std::vector<SupervisedProcess>> processes =
      PlanProcesses(*environment, variables, options.is_prefix_wanted);
  if (!processes.ok()) {
    return FailAsUserError(&environment.value(), processes.error(), options.logger);
  }
  const std::vector<GpuDevice> devices = FindPodDevices(variables, options.logger);
  GiveDevices(devices, &processes.value());
  // A program may bind any port, ours included, so a missing status server does not stop it.
  Result<std::unique_ptr<RuntimeService>> service =
      RuntimeService::Start(*environment, options.logger, [](const ControlMessage& message) {
        if (message.kind == ControlKind::kStop) {
          ::kill(::getpid(), SIGTERM);  // as the operator's own signal would do it
        }
      });
  if (!service.ok()) {
    options.logger->Warn("no status is served", {{"error", service.error().ToString()}});
  }
  MakeCheckpointDirectory(environment->checkpoint_directory, options.logger);
  SuperviseOptions supervise = BaseOptions(options);
  supervise.processes = std::move(processes).value();
  supervise.grace = environment->grace;
  supervise.termination_message_file = environment->termination_message_file;
  if (service.ok()) {
    StatusBoard* board = &(*service)->board();
    ShowDevices(devices, environment->processes, board);
    supervise.on_event = [board](const SupervisorEvent& event) { ShowEvent(event, board); };
  }
  return Supervise(supervise);
}

}  // namespace lockstep::runtime
