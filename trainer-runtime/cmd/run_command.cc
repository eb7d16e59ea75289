#include "trainer-runtime/cmd/run_command.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "common/contract/command/python_command.h"
#include "common/contract/environment/supervised_place.h"
#include "common/contract/environment/torch_variables.h"
#include "common/contract/status/exit_code.h"
#include "trainer-runtime/cmd/devices/pod_devices.h"
#include "trainer-runtime/cmd/program_service.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/supervisor/hang/ras_client.h"
#include "trainer-runtime/supervisor/oom_kills.h"
#include "trainer-runtime/supervisor/peers/horovod_gate.h"
#include "trainer-runtime/supervisor/peers/horovod_rendezvous.h"
#include "trainer-runtime/supervisor/peers/torchrun_watch.h"
#include "trainer-runtime/supervisor/process/supervised_signals.h"
#include "trainer-runtime/supervisor/process_plan.h"
#include "trainer-runtime/supervisor/process_succession.h"
#include "trainer-runtime/supervisor/program_hold.h"
#include "trainer-runtime/supervisor/status/pod_listener.h"
#include "trainer-runtime/supervisor/supervisor.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kTorchrunErrorFile = "TORCHELASTIC_ERROR_FILE";

// Whether any variable of ours is set: then the program is a worker of a job.
bool IsWorkerOfJob(const EnvironmentMap& variables) {
  const auto first = variables.lower_bound("LOCKSTEP_JOB");
  return first != variables.end() && first->first.rfind("LOCKSTEP_JOB", 0) == 0;
}

SuperviseOptions BaseOptions(const RunCommandOptions& options) {
  SuperviseOptions supervise;
  supervise.command = options.command;
  supervise.warm = options.warm;
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
      board->Update([](StatusDocument& document) { document.hang_evidence.clear(); });
      return;
    case SupervisorEvent::Kind::kEnded:
      return;
  }
}

// The programs of one pod: those that meet their peers by our library are heard and, when lost,
// replaced beside the others.
class PodOfPrograms {
 public:
  PodOfPrograms(const WorkerEnvironment& environment, const RunCommandOptions& options)
      : logger_(options.logger),
        listener_(environment.processes, environment.silent_after, options.logger),
        succession_(environment.processes, options.may_restart),
        first_start_{environment.attempt, environment.epoch} {}

  PodListener* listener() { return &listener_; }

  // Thread: any.
  GangStart start() const {
    const ProgramHold* const hold = heard_hold_.load();
    return hold != nullptr ? hold->start() : first_start_;
  }

  // What the operator says, on the server's thread.
  void Hear(const ControlMessage& message) {
    switch (message.kind) {
      case ControlKind::kStop:
        ::kill(::getpid(), SIGTERM);  // as the operator's own signal would do it
        return;
      case ControlKind::kPeerGone:
        listener_.Tell(message);
        return;
      case ControlKind::kHalt:
      case ControlKind::kRelaunch:
        if (ProgramHold* const hold = heard_hold_.load()) {
          hold->Take(message);
        }
        return;
    }
  }

  // Has `supervise` hold the end of the programs, where the pod is born for that. What only a new
  // pod can be told of is not held: that the kernel killed for want of memory, which the kubelet
  // says, and programs that meet by our library, whose peers meet a successor. `board` as of
  // Attach.
  void Hold(const WorkerEnvironment& environment,
            StatusBoard* board,
            Logger* logger,
            SuperviseOptions* supervise) {
    if (environment.hold.count() == 0) {
      return;
    }
    auto hold = ProgramHold::Make(environment, board, logger);
    if (!hold.ok()) {
      logger->Warn("this pod cannot wait for a relaunch, so it ends when its programs end",
                   {{"error", hold.error().ToString()}});
      return;
    }
    hold_ = std::move(hold).value();
    heard_hold_ = hold_.get();
    supervise->hold = hold_.get();
    supervise->may_hold = [this, processes = environment.processes, oom_kills = OomKills()] {
      bool is_missed = false;
      for (int local_rank = 0; local_rank < processes; ++local_rank) {
        is_missed = is_missed || listener_.IsMissed(local_rank);
      }
      return !is_missed && OomKills() == oom_kills;
    };
  }

  // Has `supervise` start the programs with a channel to here. `board` outlives this object, which
  // outlives the supervision.
  void Attach(StatusBoard* board, SuperviseOptions* supervise) {
    board_ = board;
    listener_.ShowOn(board);
    supervise->on_start = [this](int local_rank) { return OnStart(local_rank); };
    supervise->on_event = [this](const SupervisorEvent& event) { OnEvent(event); };
    supervise->wants_again = [this](const SupervisorEvent& ended) {
      return listener_.IsMissed(ended.local_rank) &&
             succession_.WantsAgain(ended, listener_.newest_step());
    };
    supervise->judge = [this](SupervisorEvent* ended) { Judge(ended); };
    supervise->session_of = [this](int local_rank) { return listener_.SessionOf(local_rank); };
    supervise->count_reports = [this](int local_rank) {
      return listener_.CountReports(local_rank);
    };
    supervise->court.has_stepped = [this] { return listener_.HasStepped(); };
    supervise->court.on_evidence = [this](const std::vector<RankEvidence>& ranks) {
      board_->Update([&ranks](StatusDocument& document) { document.hang_evidence = ranks; });
    };
    supervise->is_done = [this] {
      const std::optional<StatusDocument> document = listener_.Furthest();
      return document.has_value() && document->phase == Phase::kSucceeded;
    };
    supervise->add_words = [this](TerminationMessage* words) { TellHowFar(words); };
  }

 private:
  Result<ProcessStart> OnStart(int local_rank) {
    if (hold_ != nullptr && relaunches_ != hold_->relaunches()) {
      relaunches_ = hold_->relaunches();
      listener_.ForgetLosses();
    }
    ProcessStart start;
    LOCKSTEP_ASSIGN_OR_RETURN(start.kept, listener_.Connect(local_rank));
    start.environment =
        RenderSupervisedPlace({local_rank, succession_.CountStart(local_rank), start.kept.get()});
    start.kept_variable = env::kChannelFd;
    if (hold_ != nullptr) {
      start.environment.merge(hold_->environment());
    }
    return start;
  }

  void Judge(SupervisorEvent* ended) {
    ended->why = listener_.Objection(ended->local_rank, ended->exit_code);
    if (!ended->why.empty()) {
      ended->exit_code = kExitUnfinished;
    } else if (ended->signal != 0 && listener_.IsDone(ended->local_rank, ended->pid)) {
      logger_->Warn(
          "process ended by a signal after all ranks had reported that all work is done: this is "
          "not a failure",
          {{"local_rank", ended->local_rank},
           {"exit", DescribeExit(ended->exit_code, ended->signal, "")}});
      ended->exit_code = ended->signal = kExitSuccess;
    }
  }

  // What a program reports just before its end nobody may have asked for while it ran.
  void TellHowFar(TerminationMessage* words) const {
    const std::optional<StatusDocument> document = listener_.Furthest();
    if (!document.has_value() || document->step == Step()) {
      return;
    }
    words->last_step = document->step;
    words->steps_total = document->steps_total;
    words->data_epoch = document->data_epoch;
    words->training_loss = document->loss;
    words->history = document->history;
  }

  void OnEvent(const SupervisorEvent& event) {
    ShowEvent(event, board_);
    if (event.kind == SupervisorEvent::Kind::kStarted) {
      listener_.NoteStarted(event.local_rank, event.pid);
    } else if (event.kind == SupervisorEvent::Kind::kEnded) {
      listener_.NoteEnded(event.local_rank);
    }
  }

  Logger* const logger_;
  PodListener listener_;
  ProcessSuccession succession_;
  const GangStart first_start_;
  StatusBoard* board_ = nullptr;
  std::unique_ptr<ProgramHold> hold_;
  int64_t relaunches_ = 0;                          // that processes were started for
  std::atomic<ProgramHold*> heard_hold_ = nullptr;  // set while messages come
};

// The program finds the folder for its checkpoints there. Its own trouble with it is clearer than
// ours: a program that writes none must not fail here.
void MakeCheckpointDirectory(const std::string& directory, Logger* logger) {
  if (directory.empty() || ::mkdir(directory.c_str(), 0777) == 0 || errno == EEXIST) {
    return;
  }
  const Error error = SystemError(errno, "making " + directory);
  logger->Warn("the folder for checkpoints could not be created", {{"error", error.ToString()}});
}

// Whether a signal waits that will end the command as soon as it runs.
bool IsAskedToEnd() {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1;
}

// Waits for the gang of a job whose ranks meet by Horovod, and returns the server that they meet
// at, in the pod where they look for it; null elsewhere. Programs of other jobs may want its port.
// Errors: as ServeHorovod.
Result<std::unique_ptr<HttpServer>> MeetByHorovod(const WorkerEnvironment& environment,
                                                  const RunCommandOptions& options) {
  std::unique_ptr<HttpServer> server;
  if (!options.waits_for_gang || !environment.rank.has_value()) {
    return server;
  }
  if (HoldsHorovodRendezvous(environment)) {
    auto served = ServeHorovod(environment, options.logger);
    if (!served.ok()) {
      return std::move(served).error().Wrap("serve Horovod's rendezvous");
    }
    server = std::move(served).value();
  }
  WaitAtHorovodGate(environment,
                    Deadline::After(SteadyNow(), HorovodGatePatience(environment)),
                    IsAskedToEnd,
                    options.logger);
  return server;
}

// Tells the lone process of a pod where torchrun in it is to leave how its ranks ended. Without the
// file its summary says so.
std::optional<TorchrunErrorFile> OfferErrorFile(const std::string& termination_message_file,
                                                std::vector<SupervisedProcess>* processes) {
  EnvironmentMap& variables = processes->front().environment;
  if (processes->size() > 1 || variables.count(kTorchrunErrorFile) > 0) {
    return std::nullopt;
  }
  Result<TorchrunErrorFile> file = TorchrunErrorFile::Make(termination_message_file);
  if (!file.ok()) {
    return std::nullopt;
  }
  variables[kTorchrunErrorFile] = file->path();
  return std::move(file).value();
}

// Tells of a torchrun that does not do what the job asks for, and ends the pod where it cannot.
class TorchrunTrouble {
 public:
  // Watches where ranks start that are no plain Python program, and where nobody has said that the
  // runtime alone starts them.
  TorchrunTrouble(const WorkerEnvironment& environment,
                  int process_count,
                  const RunCommandOptions& options)
      : environment_(environment), logger_(options.logger) {
    const bool may_start_it =
        MentionsTorchrun(options.command) || !ParsePythonCommand(options.command).ok();
    if (environment.rank.has_value() && may_start_it &&
        environment.launcher != ProcessLauncher::kLockstep) {
      watch_.emplace(TorchrunExpectation{process_count, environment.world_size},
                     [this](const TorchrunFault& fault) { Hear(fault); });
    }
  }

  bool is_fatal() const { return is_fatal_.load(); }

 private:
  void Hear(const TorchrunFault& fault) {
    logger_->Error("torchrun does not match the job", {{"reason", fault.what}});
    if (fault.is_fatal) {
      TerminationMessage message;
      message.outcome = Outcome::kPermanent;
      message.reason = fault.what;
      WriteTerminationMessage(environment_, message, logger_);
      is_fatal_ = true;
      ::kill(::getpid(), SIGTERM);
    }
  }

  const WorkerEnvironment& environment_;
  Logger* const logger_;
  std::atomic<bool> is_fatal_ = false;
  std::optional<TorchrunWatch> watch_;  // last: calls Hear
};

int RefuseToStart(const WorkerEnvironment* environment,
                  const Error& error,
                  Outcome outcome,
                  Logger* logger) {
  logger->Error("the command was not started", {{"error", error.ToString()}});
  if (environment != nullptr) {
    TerminationMessage message;
    message.outcome = outcome;
    message.reason = error.ToString();
    WriteTerminationMessage(*environment, message, logger);
  }
  const int later = error.code() == ErrorCode::kAlreadyExists ? kExitPortTaken : kExitRetryable;
  return outcome == Outcome::kRetryable ? later : kExitUserError;
}

// Of what the program finds in its environment, or does not find there any more.
void TellOfVariables(const WorkerEnvironment& environment,
                     const EnvironmentMap& inherited,
                     const SupervisedProcess& process,
                     Logger* logger) {
  if (inherited.count(env::kTfConfig) > 0 && process.environment.count(env::kTfConfig) == 0) {
    logger->Warn("TF_CONFIG from the image or from envFrom was removed",
                 {{"reason", "the job has only one process, which needs no TF_CONFIG"}});
  }
  if (!environment.rank.has_value()) {
    return;
  }
  for (const std::string& objection :
       ObjectionsToTorchVariables(inherited, environment.hung_after)) {
    logger->Warn("an environment variable of torch hinders recovery", {{"reason", objection}});
  }
}

// Errors: kInvalidArgument: no interpreter can be kept for this command, or with such a module.
Status CheckWarm(const RunCommandOptions& options) {
  for (const std::string& module : options.warm) {
    if (!IsModuleName(module)) {
      return Error(ErrorCode::kInvalidArgument,
                   "--warm: \"" + module + "\" found, expected a module such as torch");
    }
  }
  if (!options.warm.empty()) {
    const Result<PythonCommand> command = ParsePythonCommand(options.command);
    if (!command.ok()) {
      return Error(command.error()).Wrap("--warm");
    }
  }
  return OkStatus();
}

}  // namespace

int RunCommand(const EnvironmentMap& variables, const RunCommandOptions& options) {
  BlockSupervisedSignals();
  const Status warm = CheckWarm(options);
  if (!IsWorkerOfJob(variables)) {
    return warm.ok() ? RunAlone(variables, options)
                     : RefuseToStart(nullptr, warm.error(), Outcome::kPermanent, options.logger);
  }
  const Result<WorkerEnvironment> environment = ParseEnvironment(variables);
  if (!environment.ok()) {
    return RefuseToStart(nullptr, environment.error(), Outcome::kPermanent, options.logger);
  }
  if (!warm.ok()) {
    return RefuseToStart(&environment.value(), warm.error(), Outcome::kPermanent, options.logger);
  }
  Result<std::vector<SupervisedProcess>> processes =
      PlanProcesses(*environment, variables, options.command, options.is_prefix_wanted);
  if (!processes.ok()) {
    return RefuseToStart(
        &environment.value(), processes.error(), Outcome::kPermanent, options.logger);
  }
  TellOfVariables(*environment, variables, processes->front(), options.logger);
  const std::vector<GpuDevice> devices = FindPodDevices(variables, options.logger);
  ExposeDevices(devices, environment->gpu_visibility, &processes.value());
  // A program may bind any port, ours included, so a missing status server does not stop it.
  PodOfPrograms pod(*environment, options);
  const auto on_control = [&pod](const ControlMessage& message) { pod.Hear(message); };
  Result<std::unique_ptr<RuntimeService>> service = RuntimeService::Start(
      *environment,
      options.logger,
      on_control,
      [&pod] { return pod.listener()->MetricsPage(); },
      [&pod] { return pod.listener()->ToldPage(); });
  if (!service.ok()) {
    options.logger->Warn("this pod cannot serve its status and metrics",
                         {{"error", service.error().ToString()}});
  }
  MakeCheckpointDirectory(environment->checkpoint_directory, options.logger);
  const Result<std::unique_ptr<HttpServer>> horovod = MeetByHorovod(*environment, options);
  if (!horovod.ok()) {
    return RefuseToStart(
        &environment.value(), horovod.error(), Outcome::kRetryable, options.logger);
  }
  SuperviseOptions supervise = BaseOptions(options);
  const std::optional<TorchrunErrorFile> error_file =
      OfferErrorFile(environment->termination_message_file, &processes.value());
  supervise.torchrun_error_file = error_file.has_value() ? error_file->path() : "";
  supervise.processes = std::move(processes).value();
  supervise.grace = environment->grace;
  supervise.termination_message_file = environment->termination_message_file;
  supervise.hung_after = environment->hung_after;
  supervise.court.ask_nccl = AskNcclBy(
      *environment, supervise.processes.front().environment, supervise.processes.size() == 1);
  supervise.has_peers_elsewhere =
      environment->rank.has_value() && environment->world_size > environment->processes;
  if (service.ok()) {
    ShowDevices(devices, environment->processes, &(*service)->board());
    pod.Attach(&(*service)->board(), &supervise);
    pod.Hold(*environment, &(*service)->board(), options.logger, &supervise);
  }
  const ProgramService programs = ServePrograms(
      *environment,
      [&pod] { return pod.start(); },
      pod.listener(),
      options.logger,
      &supervise.processes);
  const TorchrunTrouble trouble(
      *environment, static_cast<int>(supervise.processes.size()), options);
  const int exit_code = Supervise(supervise);
  pod.listener()->StopShowing();
  return trouble.is_fatal() ? kExitUserError : exit_code;
}

}  // namespace lockstep::runtime
