#include "trainer-runtime/cmd/train_command.h"

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/contract/exit_code.h"
#include "common/contract/supervised_place.h"
#include "common/contract/termination_message.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/cmd/device_choice.h"
#include "trainer-runtime/cmd/pod_devices.h"
#include "trainer-runtime/cmd/runtime_service.h"
#include "trainer-runtime/cmd/training_observer.h"
#include "trainer-runtime/cmd/training_parts.h"
#include "trainer-runtime/collectives/communicator_reducer.h"
#include "trainer-runtime/collectives/nccl/nccl_reducer.h"
#include "trainer-runtime/session/recovery_loop.h"
#include "trainer-runtime/session/session.h"
#include "trainer-runtime/strategy/rank_control.h"
#include "trainer-runtime/train/ending.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {
namespace {

void TellEnd(const WorkerEnvironment& environment,
             const TrainCommandOptions& options,
             const TerminationMessage& message) {
  if (options.place.has_value()) {
    TellLastWords(message, options.logger);
  } else {
    WriteTerminationMessage(environment, message, options.logger);
  }
}

// The environment of one of the pod's processes.
WorkerEnvironment OfProcess(WorkerEnvironment environment, const ProcessPlace& place) {
  if (environment.rank.has_value()) {
    *environment.rank += place.local_rank;
  }
  environment.incarnation = IncarnationOfProcess(environment.incarnation, place.start);
  return environment;
}

// One process's part in one job, from the first meeting to the exit code.
class TrainingProcess {
 public:
  TrainingProcess(WorkerEnvironment environment, TrainingSpec spec, TrainCommandOptions options)
      : environment_(std::move(environment)),
        spec_(std::move(spec)),
        options_(std::move(options)) {}

  int Run();

 private:
  Result<TrainerVerdict> Train();
  Status StartService();
  void SaveBeforeLeaving();
  Status StartSession();
  void EndSession();
  void StartLoading();
  std::optional<Error> LoadingFault();
  Status FinishLoading();
  Status MakeTrainer();
  TrainerHooks Hooks();
  Result<std::unique_ptr<GradientReducer>> MakeReducer(const JoinedMeeting& meeting);
  Result<TrainerVerdict> TrainInMeeting(const JoinedMeeting& meeting);
  Ending Conclude(const Result<TrainerVerdict>& verdict);
  void TellEnding(const Ending& ending);
  StopFacts FactsAtStop() const;
  Ending LeaveBrokenGang();
  Status SaveForBrokenGang();
  Status ClaimCheckpoints(Epoch epoch, Incarnation chief);
  uint64_t PlanHash() const;
  void OnControl(const ControlMessage& message);

  // False for a replacement that came when the others had finished.
  bool HasTrainedToTheEnd() const {
    return trainer_.has_value() && trainer_->last_applied().value() >= trainer_->step_count_total();
  }

  int rank() const { return environment_.rank.value_or(0); }

  WorkerEnvironment environment_;
  TrainingSpec spec_;
  TrainCommandOptions options_;
  SystemClock clock_;
  std::unique_ptr<RuntimeService> service_;
  std::unique_ptr<TrainingObserver> observer_;
  std::mutex session_mutex_;          // the server's thread asks for the session before it exists
  std::unique_ptr<Session> session_;  // guarded by session_mutex_ while it is being made
  std::stop_source give_up_;  // waiting for the others: asked to stop, or nothing to train with
  std::future<Result<TrainingParts>> loading_;
  std::optional<TrainingParts> parts_;
  std::unique_ptr<CheckpointStore> checkpoints_;
  std::optional<Trainer> trainer_;
  TimePoint samples_counted_at_;
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
    message.training_loss = trainer_->training_loss();
  }
  if (trainer_.has_value() && trainer_->has_state()) {
    const SampleTotals totals = trainer_->SampleTotalsNow();
    message.samples = SampleCounts{totals.consumed, totals.expected, totals.lost, totals.repeated};
    if (const std::optional<EvaluationResult>& result = trainer_->test_result()) {
      message.result = TestResult{result->loss, result->accuracy};
    }
  }
  if (service_ != nullptr) {
    service_->HearLastQuestion();
    const StatusDocument last = service_->board().Snapshot();
    message.steps_total = last.steps_total;
    message.last_checkpoint_step = last.last_checkpoint_step;
    if (last.checkpoints != CheckpointStatus()) {
      message.checkpoints = last.checkpoints;
    }
    message.history = last.history;
  }
  TellEnd(environment_, options_, message);
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
  const std::stop_callback on_stop(options_.stop->token(), [this] { give_up_.request_stop(); });
  StartLoading();
  LOCKSTEP_RETURN_IF_ERROR(StartService());
  LOCKSTEP_RETURN_IF_ERROR(StartSession());
  // What the others have come to where this rank comes too late for the end.
  TrainerVerdict verdict = TrainerVerdict::kFinished;
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
    const bool is_the_end = verdict == TrainerVerdict::kFinished ||
                            verdict == TrainerVerdict::kNotSaved ||
                            verdict == TrainerVerdict::kInexact;
    if (is_the_end) {
      session_->Finish();
    } else if (verdict == TrainerVerdict::kLeft) {
      SaveBeforeLeaving();
    }
    return OkStatus();
  };
  steps.on_broken = [this](Epoch epoch, const Error& error) {
    observer_->MeetingBroke(epoch, error);
  };
  const Status ended = RepeatMeetings(session_.get(), steps);
  if (ended.ok()) {
    return verdict;
  }
  return LoadingFault().value_or(ended.error());
}

StopFacts TrainingProcess::FactsAtStop() const {
  return {rank() == 0,
          trainer_.has_value() && trainer_->has_state(),
          checkpoints_ != nullptr && session_ != nullptr};
}

void TrainingProcess::SaveBeforeLeaving() {
  if (SaverAtStop(StopMoment::kGangGoesOn, FactsAtStop()) != Saver::kThisRank) {
    return;
  }
  const Status saved =
      trainer_->SaveNow(environment_.world_size, Deadline::After(SteadyNow(), environment_.grace));
  if (!saved.ok()) {
    options_.logger->Error("left without a checkpoint", {{"error", saved.error().ToString()}});
  }
}

Status TrainingProcess::StartService() {
  const auto start =
      options_.place.has_value()
          ? &RuntimeService::StartBelowSupervisor
          : [](const WorkerEnvironment& environment,
               Logger* logger,
               std::function<void(const ControlMessage&)> on_control) {
              return RuntimeService::Start(environment, logger, std::move(on_control));
            };
  LOCKSTEP_ASSIGN_OR_RETURN(
      service_, start(environment_, options_.logger, [this](const ControlMessage& message) {
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
  options.stop = give_up_.get_token();
  options.mesh.logger = options_.logger;
  options.mesh.on_peer_lost = [this](const PeerLoss& loss) { observer_->PeerLost(loss); };
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Session> started, Session::Start(std::move(options)));
  const std::lock_guard<std::mutex> lock(session_mutex_);
  session_ = std::move(started);
  observer_->WatchPeers(&session_->mesh());
  return OkStatus();
}

// Loads on a thread of its own, beside the rendezvous. It owns all that it uses and nobody waits
// for it: a stop is heard while a disk does not answer. What it finds wrong ends the wait for the
// others, so that this rank's own reason is what is reported.
void TrainingProcess::StartLoading() {
  std::packaged_task<Result<TrainingParts>()> load(
      [spec = spec_, environment = environment_, path = options_.engine_path, give_up = give_up_] {
        Result<TrainingParts> parts = LoadTrainingParts(spec, environment, path);
        if (!parts.ok()) {
          std::stop_source(give_up).request_stop();
        }
        return parts;
      });
  loading_ = load.get_future();
  std::thread(std::move(load)).detach();
}

// Why loading failed; empty when it did not, is not known, or was told already.
std::optional<Error> TrainingProcess::LoadingFault() {
  const bool is_known =
      loading_.valid() && loading_.wait_for(Duration::zero()) == std::future_status::ready;
  const Result<TrainingParts> parts =
      is_known ? loading_.get() : Error(ErrorCode::kAborted, "not loaded");
  return is_known && !parts.ok() ? std::optional(AsOwnFault(parts.error())) : std::nullopt;
}

// Waits for engine and data, once, and makes the trainer from them.
Status TrainingProcess::FinishLoading() {
  constexpr Duration kLookAtStop = std::chrono::milliseconds(100);
  if (trainer_.has_value()) {
    return OkStatus();
  }
  while (loading_.wait_for(kLookAtStop) != std::future_status::ready) {
    if (options_.stop->requested().load()) {
      return Error(ErrorCode::kAborted, "loading stopped by request");
    }
  }
  Result<TrainingParts> parts = loading_.get();
  if (!parts.ok()) {
    return AsOwnFault(parts.error());
  }
  parts_ = std::move(parts).value();
  const Status made = MakeTrainer();
  return made.ok() ? OkStatus() : AsFolderFault(made.error());
}

Status TrainingProcess::MakeTrainer() {
  observer_->EngineReady(parts_->replicas->engine(0).Description(), parts_->replicas->count());
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
  const TrainerParts trainer_parts{parts_->strategy.get(),
                                   &parts_->data.train,
                                   &parts_->data.test,
                                   checkpoints_.get(),
                                   options_.logger};
  LOCKSTEP_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Make(spec_, trainer_parts, Hooks()));
  trainer_.emplace(std::move(trainer));
  observer_->LengthKnown(trainer_->step_count_total());
  return OkStatus();
}

// The observer's, and once a second the samples: counting them looks at each of the data epoch.
TrainerHooks TrainingProcess::Hooks() {
  static constexpr Duration kCountInterval = std::chrono::seconds(1);
  TrainerHooks hooks = observer_->Hooks();
  hooks.on_step = [this, tell = std::move(hooks.on_step)](const StepReport& report) {
    session_->NoteAllHold();
    tell(report);
    if (const TimePoint now = SteadyNow(); now - samples_counted_at_ >= kCountInterval) {
      samples_counted_at_ = now;
      observer_->SamplesCounted(trainer_->SampleTotalsNow());
    }
  };
  return hooks;
}

Result<std::unique_ptr<GradientReducer>> TrainingProcess::MakeReducer(
    const JoinedMeeting& meeting) {
  if (parts_->nccl == nullptr) {
    return std::unique_ptr<GradientReducer>(
        std::make_unique<CommunicatorReducer>(meeting.communicator));
  }
  NcclReducerOptions options;
  options.ground = parts_->nccl;
  options.control = meeting.communicator;
  options.epoch = meeting.epoch;
  options.element_count = parts_->replicas->engine(0).Gradients().size();
  options.is_stopped = [this] { return options_.stop->requested().load(); };
  return JoinNccl(options, Deadline::After(SteadyNow(), environment_.rendezvous_timeout));
}

Result<TrainerVerdict> TrainingProcess::TrainInMeeting(const JoinedMeeting& meeting) {
  if (checkpoints_ != nullptr && rank() == 0) {
    const Status claimed = ClaimCheckpoints(meeting.epoch, environment_.incarnation);
    if (!claimed.ok()) {
      return AsFolderFault(claimed.error());
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<GradientReducer> reducer, MakeReducer(meeting));
  observer_->GradientsMeet(*reducer);
  RankControl control(meeting.communicator);
  Result<TrainerVerdict> verdict = trainer_->RunMeeting(
      meeting.state_source, {&control, reducer.get()}, options_.stop->requested());
  return verdict.ok() ? verdict : AsFolderFault(verdict.error());
}

Ending TrainingProcess::Conclude(const Result<TrainerVerdict>& verdict) {
  if (!verdict.ok() && options_.stop->requested().load()) {
    return LeaveBrokenGang();
  }
  Ending ending;
  if (verdict.ok()) {
    const std::string trouble = trainer_.has_value() ? trainer_->trouble() : "";
    ending = EndOf(*verdict, {HasTrainedToTheEnd(), checkpoints_ != nullptr, trouble});
  } else {
    ending = EndOf(verdict.error());
  }
  TellEnding(ending);
  return ending;
}

// To those who look at the status, and to the log where it is a failure.
void TrainingProcess::TellEnding(const Ending& ending) {
  if (ending.kind == EndingKind::kFailed) {
    options_.logger->Error("training failed", {{"rank", rank()}, {"error", ending.reason}});
  }
  if (observer_ == nullptr) {
    return;
  }
  switch (ending.kind) {
    case EndingKind::kFinished:
      observer_->Finished(trainer_->test_result(), trainer_->SampleTotalsNow());
      break;
    case EndingKind::kStopped:
      observer_->Stopped();
      break;
    case EndingKind::kFailed:
      observer_->Failed();
      break;
  }
}

// Asked to stop while the gang was broken. What was trained is with those that are left.
Ending TrainingProcess::LeaveBrokenGang() {
  const bool is_mine =
      SaverAtStop(StopMoment::kGangIsBroken, FactsAtStop()) == Saver::kFirstOfTheHolders &&
      session_->AwaitFirstOfHolders();
  const Status saved = is_mine ? SaveForBrokenGang() : OkStatus();
  if (!saved.ok()) {
    options_.logger->Error("left without a checkpoint", {{"error", saved.error().ToString()}});
  }
  Ending ending = EndOfBrokenGang(is_mine, saved);
  TellEnding(ending);
  return ending;
}

// In the name of the chief of their meeting, so that chiefs of later ones, who may have met without
// this rank, are not disturbed.
Status TrainingProcess::SaveForBrokenGang() {
  const Epoch epoch = session_->newest_epoch();
  const Incarnation chief = session_->newest_chief();
  if (checkpoints_->HasSaved(trainer_->last_applied(), epoch, chief)) {
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(ClaimCheckpoints(epoch, chief));
  return trainer_->SaveNow(environment_.world_size,
                           Deadline::After(SteadyNow(), environment_.grace));
}

// A writer that is refused has failed to save what it holds, unless a newer one does that now.
Status TrainingProcess::ClaimCheckpoints(Epoch epoch, Incarnation chief) {
  Status claimed = checkpoints_->Claim(epoch, chief);
  const bool has_trained = trainer_->last_applied() > Step();
  if (!claimed.ok() && claimed.error().code() != ErrorCode::kStale && has_trained) {
    observer_->NotSaved(trainer_->last_applied(), claimed.error());
  }
  return claimed;
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
  // A pod goes with all its ranks.
  for (int local = 0; session_ != nullptr && local < environment_.processes; ++local) {
    session_->NoteGone(message.rank + local, message.incarnation, message.epoch);
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
  if (options.place.has_value()) {
    environment = OfProcess(std::move(environment).value(), *options.place);
  }
  Result<TrainingSpec> spec = ParseTrainingSpec(environment->training);
  if (spec.ok()) {
    spec = CheckNcclVariables(std::move(spec).value(), variables);
  }
  if (spec.ok()) {
    spec = CheckDevices(std::move(spec).value(), options.devices);
  }
  if (!spec.ok() || !environment->rank.has_value()) {
    const Error error = spec.ok()
                            ? Error(ErrorCode::kInvalidArgument, "this pod's role does not train")
                                  .WithField(env::kRole)
                            : spec.error();
    options.logger->Error("nothing to train", {{"error", error.ToString()}});
    TerminationMessage message;
    message.outcome = Outcome::kPermanent;
    message.reason = error.ToString();
    TellEnd(*environment, options, message);
    return kExitUserError;
  }
  TrainingProcess process(std::move(environment).value(), std::move(spec).value(), options);
  return process.Run();
}

}  // namespace lockstep::runtime
