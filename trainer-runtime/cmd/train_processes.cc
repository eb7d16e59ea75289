#include "trainer-runtime/cmd/train_processes.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "common/contract/status/exit_code.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/cmd/devices/pod_devices.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/supervisor/process/supervised_signals.h"
#include "trainer-runtime/supervisor/process_succession.h"
#include "trainer-runtime/supervisor/status/pod_listener.h"
#include "trainer-runtime/supervisor/supervisor.h"
#include "trainer-runtime/train/ending.h"

namespace lockstep::runtime {
namespace {

// A document that cannot be read is each process's to complain of.
bool HasOwnModels(const WorkerEnvironment& environment) {
  const Result<TrainingSpec> spec = ParseTrainingSpec(environment.training);
  return spec.ok() && spec->variables == VariablePlacement::kIndependent;
}

// The processes of one pod, from the first start to the exit code.
class PodOfTrainers {
 public:
  PodOfTrainers(WorkerEnvironment environment, TrainProcessesOptions options)
      : environment_(std::move(environment)),
        options_(std::move(options)),
        listener_(environment_.processes,
                  environment_.silent_after,
                  options_.logger,
                  HasOwnModels(environment_)),
        succession_(environment_.processes, options_.may_restart) {}

  int Run(const EnvironmentMap& variables);

 private:
  Status StartService(const std::vector<GpuDevice>& devices);
  Result<ProcessStart> OnStart(int local_rank);
  void OnEvent(const SupervisorEvent& event);
  bool WantsAgain(const SupervisorEvent& ended);
  void TellLastWords() const;

  WorkerEnvironment environment_;
  TrainProcessesOptions options_;
  PodListener listener_;
  std::unique_ptr<RuntimeService> service_;
  ProcessSuccession succession_;
  std::optional<int> culprit_;  // the first local rank that failed for good
};

// Where the template says nothing, a process computes with its part of the pod's cores.
void ShareCores(int process_count, EnvironmentMap* variables) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  variables->try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, cores / process_count)));
}

std::string OwnPath(const std::string& name) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : path.string();
}

int PodOfTrainers::Run(const EnvironmentMap& variables) {
  SuperviseOptions supervise;
  EnvironmentMap shared = variables;
  ShareCores(environment_.processes, &shared);
  for (int local_rank = 0; local_rank < environment_.processes; ++local_rank) {
    const int rank = environment_.rank.value_or(0) + local_rank;
    supervise.processes.push_back({shared, "[rank " + std::to_string(rank) + "] ", rank});
  }
  const std::vector<GpuDevice> devices = FindPodDevices(variables, options_.logger);
  GiveDevices(devices, &supervise.processes);
  if (const Status started = StartService(devices); !started.ok()) {
    const Ending ending = EndOf(started.error());
    options_.logger->Error("training failed", {{"error", ending.reason}});
    TerminationMessage message;
    message.outcome = ClassifyExit(ending.exit_code, 0, "").outcome;
    message.reason = ending.reason;
    WriteTerminationMessage(environment_, message, options_.logger);
    return ending.exit_code;
  }
  supervise.command = options_.command;
  supervise.command.front() = OwnPath(supervise.command.front());
  supervise.grace = environment_.grace;
  supervise.termination_message_file = environment_.termination_message_file;
  supervise.logger = options_.logger;
  supervise.on_start = [this](int local_rank) { return OnStart(local_rank); };
  supervise.on_event = [this](const SupervisorEvent& event) { OnEvent(event); };
  supervise.wants_again = [this](const SupervisorEvent& ended) { return WantsAgain(ended); };
  const int exit_code = Supervise(supervise);
  listener_.StopShowing();
  service_->HearLastQuestion();
  TellLastWords();
  return exit_code;
}

Status PodOfTrainers::StartService(const std::vector<GpuDevice>& devices) {
  const auto on_control = [this](const ControlMessage& message) {
    if (message.kind == ControlKind::kStop) {
      ::kill(::getpid(), SIGTERM);  // as the operator's own signal would do it
    } else {
      listener_.Tell(message);
    }
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      service_, RuntimeService::Start(environment_, options_.logger, on_control, [this] {
        return listener_.MetricsPage();
      }));
  ShowDevices(devices, environment_.processes, &service_->board());
  listener_.ShowOn(&service_->board());
  return OkStatus();
}

Result<ProcessStart> PodOfTrainers::OnStart(int local_rank) {
  ProcessStart start;
  const int number = succession_.CountStart(local_rank);
  start.arguments = {
      "--process", std::to_string(local_rank), "--process-start", std::to_string(number)};
  LOCKSTEP_ASSIGN_OR_RETURN(start.input, listener_.Connect(local_rank));
  return start;
}

void PodOfTrainers::OnEvent(const SupervisorEvent& event) {
  switch (event.kind) {
    case SupervisorEvent::Kind::kStarted:
      listener_.NoteStarted(event.local_rank, event.pid);
      return;
    case SupervisorEvent::Kind::kEnded:
      listener_.NoteEnded(event.local_rank);
      if (event.exit_code != kExitSuccess && !culprit_.has_value()) {
        culprit_ = event.local_rank;  // unless it is wanted again
      }
      return;
    case SupervisorEvent::Kind::kStopping:
    case SupervisorEvent::Kind::kKilling:
      return;
  }
}

bool PodOfTrainers::WantsAgain(const SupervisorEvent& ended) {
  if (!succession_.WantsAgain(ended, listener_.newest_step())) {
    return false;
  }
  culprit_.reset();
  return true;
}

// What the process said that failed, else the first, is better than what its supervisor saw of it.
void PodOfTrainers::TellLastWords() const {
  if (const auto words = listener_.LastWordsOf(culprit_.value_or(0)); words.has_value()) {
    WriteTerminationMessage(environment_, *words, options_.logger);
  }
}

}  // namespace

bool HasSeveralProcesses(const EnvironmentMap& variables) {
  const Result<WorkerEnvironment> environment = ParseEnvironment(variables);
  return environment.ok() && environment->rank.has_value() && environment->processes > 1;
}

int TrainProcesses(const EnvironmentMap& variables, const TrainProcessesOptions& options) {
  BlockSupervisedSignals();
  PodOfTrainers pod(ParseEnvironment(variables).value(), options);
  return pod.Run(variables);
}

}  // namespace lockstep::runtime
