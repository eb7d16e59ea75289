#include "trainer-runtime/cmd/train_command.h"

#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/contract/exit_code.h"
#include "common/contract/termination_message.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/cmd/pod_devices.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/cmd/training_observer.h"
#include "trainer-runtime/cmd/training_parts.h"
#include "trainer-runtime/session/recovery_loop.h"
#include "trainer-runtime/session/session.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {
namespace {

// One process's part in one job, from the first meeting to the exit code.
class TrainingProcess {
 public:
  TrainingProcess(WorkerEnvironment environment, TrainingSpec spec, TrainCommandOptions options)
      : environment_(std::move(environment)),
        spec_(std::move(spec)),
        options_(std::move(options)) {}

  int Run();

 private:
  struct Ending {
    int exit_code = kExitSuccess;
    std::string reason;
  };

  Result<TrainerVerdict> Train();
  Status StartService();
  Status StartSession();
  void EndSession();
  Status FinishLoading();
  Result<TrainerVerdict> TrainInMeeting(const JoinedMeeting& meeting);
  Ending Conclude(Result<TrainerVerdict> verdict);
  Ending ConcludeError(const Error& error);
  uint64_t PlanHash() const;
  void OnControl(const ControlMessage& message);

  int rank() const { return environment_.rank.value_or(0); }

  WorkerEnvironment environment_;
  TrainingSpec spec_;
  TrainCommandOptions options_;
  SystemClock clock_;
  std::unique_ptr<RuntimeService> service_;
  std::unique_ptr<TrainingObserver> observer_;
  std::mutex session_mutex_;          // the server's thread asks for the session before it exists
  std::unique_ptr<Session> session_;  // guarded by session_mutex_ while it is being made
  std::future<Result<TrainingParts>> loading_;
  std::optional<TrainingParts> parts_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::optional<Trainer> trainer_;
  std::optional<int> culprit_rank_;  // of the newest loss
};

int TrainingProcess::Run() {
  const Ending ending = Conclude(Train());
  TerminationMessage message;
  message.outcome = ClassifyExit(ending.exit_code, 0, "").outcome;
  message.reason = ending.reason;
  message.culprit_rank = culprit_rank_;
  if (trainer_.has_value()) {
    message.last_step = trainer_->last_applied();
  }
  if (ending.exit_code == kExitSuccess) {
    const SampleTotals totals = trainer_->SampleTotalsNow();
    message.samples = SampleCounts{totals.consumed, totals.expected, totals.lost, totals.repeated};
    if (const std::optional<EvaluationResult>& result = trainer_->test_result()) {
      message.result = TestResult{result->loss, result->accuracy};
    }
  }
  if (service_ != nullptr) {
    message.last_checkpoint_step = service_->board().Snapshot().last_checkpoint_step;
  }
  WriteTerminationMessage(environment_, message, options_.logger);
  EndSession();
  return ending.exit_code;
}

// Whoever looks at the mesh ends before the mesh does.
void TrainingProcess::EndSession() {
  if (observer_ != nullptr) {
    observer_->StopWatchingPeers();
  }
  const std::lock_guard<std::mutex> lock(session_mutex_);
  session_.reset();
}

Result<TrainerVerdict> TrainingProcess::Train() {
  loading_ = std::async(std::launch::async, [this] {
    return LoadTrainingParts(spec_, environment_, options_.engine_path);
  });
  LOCKSTEP_RETURN_IF_ERROR(StartService());
  LOCKSTEP_RETURN_IF_ERROR(StartSession());
  TrainerVerdict verdict = TrainerVerdict::kLeft;
  MeetingSteps steps;
  steps.held = [this] {
    return trainer_.has_value() ? HeldState{trainer_->has_state(), trainer_->last_applied()}
                                : HeldState{};
  };
  steps.on_waiting = [this] { observer_->RendezvousBegins(); };
  steps.prepare = [this](const Meeting& meeting) {
    observer_->RendezvousEnds(meeting);
    return FinishLoading();
  };
  steps.work = [this, &verdict](const JoinedMeeting& meeting) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(verdict, TrainInMeeting(meeting));
    return OkStatus();
  };
  steps.on_broken = [this](Epoch epoch, const Error& error) {
    observer_->MeetingBroke(epoch, error);
  };
  LOCKSTEP_RETURN_IF_ERROR(RepeatMeetings(session_.get(), steps));
  return verdict;
}

Status TrainingProcess::StartService() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      service_,
      RuntimeService::Start(environment_, options_.logger, [this](const ControlMessage& message) {
        OnControl(message);
      }));
  observer_ = std::make_unique<TrainingObserver>(
      &service_->board(), &service_->metrics(), options_.logger, rank());
  ShowDevices(options_.devices, environment_.processes, &service_->board());
  return OkStatus();
}

Status TrainingProcess::StartSession() {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionOptions options,
                            MakeSessionOptions(environment_, service_->job_key()));
  options.plan_hash = PlanHash();
  options.stop = options_.stop->token();
  options.mesh.logger = options_.logger;
  options.mesh.on_peer_lost = [this](const PeerLoss& loss) { observer_->PeerLost(loss); };
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Session> started, Session::Start(std::move(options)));
  const std::lock_guard<std::mutex> lock(session_mutex_);
  session_ = std::move(started);
  observer_->WatchPeers(&session_->mesh());
  return OkStatus();
}

// Waits for engine and data, once, and makes the trainer from them.
Status TrainingProcess::FinishLoading() {
  if (trainer_.has_value()) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(parts_, loading_.get());
  observer_->EngineReady(parts_->engine->Description());
  if (!environment_.checkpoint_directory.empty()) {
    CheckpointStoreOptions store;
    store.directory = environment_.checkpoint_directory;
    store.writer = {
        environment_.job_uid, environment_.attempt, environment_.epoch, environment_.incarnation};
    store.keep_count = static_cast<int>(spec_.checkpoint.keep);
    store.other_job = OtherJobPolicy::kTakeOver;  // a job applied again resumes
    store.logger = options_.logger;
    store.clock = &clock_;
    LOCKSTEP_ASSIGN_OR_RETURN(checkpoints_, CheckpointStore::Open(std::move(store)));
  }
  const TrainerParts trainer_parts{parts_->engine.get(),
                                   &parts_->data.train,
                                   &parts_->data.test,
                                   checkpoints_.get(),
                                   options_.logger};
  LOCKSTEP_ASSIGN_OR_RETURN(Trainer trainer,
                            Trainer::Make(spec_, trainer_parts, observer_->Hooks()));
  trainer_.emplace(std::move(trainer));
  observer_->LengthKnown(trainer_->step_count_total());
  return OkStatus();
}

Result<TrainerVerdict> TrainingProcess::TrainInMeeting(const JoinedMeeting& meeting) {
  if (checkpoints_ != nullptr && rank() == 0) {
    LOCKSTEP_RETURN_IF_ERROR(checkpoints_->Claim(meeting.epoch, environment_.incarnation));
  }
  const auto element_count = static_cast<int64_t>(parts_->engine->Gradients().size());
  MultiWorkerMirrored strategy(meeting.communicator,
                               PlanBuckets(element_count, spec_.communication.bytes_per_pack));
  return trainer_->RunMeeting(meeting.state_source, &strategy, options_.stop->requested());
}

TrainingProcess::Ending TrainingProcess::Conclude(Result<TrainerVerdict> verdict) {
  if (!verdict.ok()) {
    return ConcludeError(verdict.error());
  }
  switch (*verdict) {
    case TrainerVerdict::kFinished:
      observer_->Finished(trainer_->test_result(), trainer_->SampleTotalsNow());
      return {kExitSuccess, "training finished"};
    case TrainerVerdict::kStopped:
      observer_->Stopped();
      return {kExitPreempted, "stopped on request after a checkpoint"};
    case TrainerVerdict::kLeft:
      observer_->Stopped();
      return {kExitSignalBase + SIGTERM, "asked to stop while the other ranks go on"};
  }
  return {kExitInternal, "no verdict"};
}

TrainingProcess::Ending TrainingProcess::ConcludeError(const Error& error) {
  if (options_.stop->requested().load()) {
    // Asked to stop while the gang was broken: what this rank holds is saved by the chief.
    const bool is_chief_with_state =
        rank() == 0 && trainer_.has_value() && checkpoints_ != nullptr && trainer_->has_state();
    const Status saved = is_chief_with_state
                             ? trainer_->SaveNow(environment_.world_size,
                                                 Deadline::After(SteadyNow(), environment_.grace))
                             : Status(error);
    if (observer_ != nullptr) {
      observer_->Stopped();
    }
    return saved.ok() ? Ending{kExitPreempted, "stopped on request after a checkpoint"}
                      : Ending{kExitSignalBase + SIGTERM, "stopped on request"};
  }
  if (observer_ != nullptr) {
    observer_->Failed();
  }
  options_.logger->Error("training failed", {{"rank", rank()}, {"error", error.ToString()}});
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kMismatch:
      return {kExitUserError, error.ToString()};
    case ErrorCode::kStale:
      return {kExitSuperseded, error.ToString()};
    case ErrorCode::kInternal:
      return {kExitInternal, error.ToString()};
    default:
      return {kExitRetryable, error.ToString()};
  }
}

// Ranks with another spec would reduce other buckets; they are told apart before the first byte.
uint64_t TrainingProcess::PlanHash() const {
  const std::string digest = Sha256Hex(DumpJson(EncodeTrainingSpec(spec_)));
  return std::stoull(digest.substr(0, 16), nullptr, 16);
}

void TrainingProcess::OnControl(const ControlMessage& message) {
  if (message.kind == ControlKind::kStop) {
    options_.stop->Request();
    return;
  }
  const std::lock_guard<std::mutex> lock(session_mutex_);
  if (session_ != nullptr) {
    session_->NoteGone(message.rank, message.incarnation, message.epoch);
  }
}

}  // namespace

int TrainCommand(const EnvironmentMap& variables, const TrainCommandOptions& options) {
  Result<WorkerEnvironment> environment = ParseEnvironment(variables);
  if (!environment.ok()) {
    options.logger->Error(
        "the environment does not describe a worker of a job; `lockstep run` and "
        "the operator set it",
        {{"error", environment.error().ToString()}});
    return kExitUserError;
  }
  Result<TrainingSpec> spec = ParseTrainingSpec(environment->training);
  if (!spec.ok() || !environment->rank.has_value()) {
    const Error error = spec.ok()
                            ? Error(ErrorCode::kInvalidArgument, "this pod's role does not train")
                                  .WithField(env::kRole)
                            : spec.error();
    options.logger->Error("nothing to train", {{"error", error.ToString()}});
    WriteTerminationMessage(*environment,
                            {Outcome::kPermanent, error.ToString(), {}, {}, {}, {}, {}, {}},
                            options.logger);
    return kExitUserError;
  }
  TrainingProcess process(std::move(environment).value(), std::move(spec).value(), options);
  return process.Run();
}

}  // namespace lockstep::runtime
