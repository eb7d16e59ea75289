#include "trainer-runtime/cmd/training_process.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/contract/environment/supervised_place.h"
#include "common/contract/status/exit_code.h"
#include "common/process/silence.h"
#include "trainer-runtime/cmd/devices/pod_devices.h"
#include "trainer-runtime/cmd/own_model_training.h"
#include "trainer-runtime/cmd/ps_training.h"
#include "trainer-runtime/cmd/shortage.h"
#include "trainer-runtime/collectives/nccl/nccl_blame.h"
#include "trainer-runtime/collectives/nccl/nccl_network.h"
#include "trainer-runtime/collectives/reduce/host_reducer.h"
#include "trainer-runtime/session/recovery_loop.h"
#include "trainer-runtime/strategy/make_strategy.h"
#include "trainer-runtime/strategy/rank_control.h"

namespace lockstep::runtime {
namespace {

// What the trainer knows, into a process's last words.
void TellOfTraining(Trainer* trainer, TerminationMessage* message) {
  message->last_step = trainer->last_applied();
  message->training_loss = trainer->training_loss();
  if (!trainer->has_state()) {
    return;
  }
  const SampleTotals totals = trainer->SampleTotalsNow();
  if (trainer->steps_skipped() > 0) {
    message->steps_skipped = trainer->steps_skipped();
  }
  message->samples = SampleCounts{totals.consumed, totals.expected, totals.lost, totals.repeated};
  if (const std::optional<EvaluationResult>& result = trainer->test_result()) {
    message->result = TestResult{result->loss, result->accuracy};
  }
}

}  // namespace

void TellEnd(const WorkerEnvironment& environment,
             const TrainCommandOptions& options,
             const TerminationMessage& message) {
  if (options.place.has_value()) {
    TellLastWords(message, options.logger);
  } else {
    WriteTerminationMessage(environment, message, options.logger);
  }
}

int TrainingProcess::Run() {
  const Ending ending = Conclude(ReportShortage([this] { return Train(); }));
  TerminationMessage message;
  message.outcome = ClassifyExit(ending.exit_code, 0, "").outcome;
  message.reason = ending.reason;
  message.culprit_rank = culprit_rank_;
  if (trainer_.has_value()) {
    TellOfTraining(&*trainer_, &message);
  }
  if (models_.has_value()) {
    message.training_loss = models_->training_loss;
    message.samples = models_->samples;
    message.result = models_->result;
  }
  if (service_ != nullptr) {
    service_->HearLastQuestion();
    const StatusDocument last = service_->board().Snapshot();
    message.steps_total = last.steps_total;
    message.data_epoch = last.data_epoch;
    message.last_checkpoint_step = last.last_checkpoint_step;
    if (HasModelOnPs() && message.last_step) {  // the trainer's is of the last gate
      message.last_step = std::max(*message.last_step, last.step);
    }
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
  if (HasModelOnPs()) {
    return TrainOverPs();
  }
  return HasOwnModel() ? TrainOwnModel() : TrainTogether();
}

Result<TrainerVerdict> TrainingProcess::TrainTogether() {
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

Result<TrainerVerdict> TrainingProcess::TrainOwnModel() {
  LOCKSTEP_RETURN_IF_ERROR(FinishLoading());
  if (checkpoints_ != nullptr) {
    const Status claimed = ClaimCheckpoints(environment_.epoch, environment_.incarnation);
    if (!claimed.ok()) {
      return AsFolderFault(claimed.error());
    }
  }
  const Result<TrainerVerdict> verdict =
      TrainAlone(&*trainer_, observer_.get(), environment_.epoch, options_.stop->requested());
  if (!verdict.ok()) {
    return AsFolderFault(verdict.error());
  }
  if (*verdict != TrainerVerdict::kFinished) {
    return verdict;
  }
  has_saved_own_model_ = checkpoints_ != nullptr;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<ModelReport> reports,
                            MeetModels(session_.get(), observer_.get(), &*trainer_));
  if (!reports.empty()) {
    models_ = Combine(reports);
  }
  return verdict;
}

// All updates are made before the ranks meet, evaluate and save as any others do.
Result<TrainerVerdict> TrainingProcess::TrainOverPs() {
  LOCKSTEP_RETURN_IF_ERROR(FinishLoading());
  if (checkpoints_ != nullptr && rank() == 0) {
    const Status claimed = ClaimCheckpoints(environment_.epoch, environment_.incarnation);
    if (!claimed.ok()) {
      return AsFolderFault(claimed.error());
    }
  }
  PsTraining training(
      {environment_, spec_, service_->job_key(), give_up_.get_token(), options_.logger},
      &*trainer_,
      observer_.get());
  const Result<TrainerVerdict> verdict = training.Run();
  if (!verdict.ok()) {
    const bool is_lost = verdict.error().code() == ErrorCode::kPeerLost;
    return is_lost ? AwaitEndOfAttempt(verdict.error()) : AsFolderFault(verdict.error());
  }
  return *verdict == TrainerVerdict::kFinished ? TrainTogether() : verdict;
}

// The ps that has lost a shard ends, and with it the attempt: nobody trains on, and this process
// did nothing wrong.
Error TrainingProcess::AwaitEndOfAttempt(const Error& lost) const {
  constexpr Duration kLookAtStop = std::chrono::milliseconds(100);
  options_.logger->Warn("waiting for the end of this attempt", {{"error", lost.ToString()}});
  const Deadline deadline = Deadline::After(SteadyNow(), environment_.rendezvous_timeout);
  while (!options_.stop->requested().load() && !deadline.HasPassed(SteadyNow())) {
    std::this_thread::sleep_for(kLookAtStop);
  }
  return lost;
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
    options_.logger->Error("this rank ended without writing a checkpoint",
                           {{"error", saved.error().ToString()}});
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
  options.meeting_timeout = HasOwnModel() ? kOtherModelsTimeout : options.meeting_timeout;
  options.mesh.logger = options_.logger;
  options.mesh.on_peer_lost = [this](const PeerLoss& loss) { observer_->PeerLost(loss); };
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Session> started, Session::Start(std::move(options)));
  const std::lock_guard<std::mutex> lock(session_mutex_);
  session_ = std::move(started);
  observer_->WatchPeers(&session_->mesh());
  return OkStatus();
}

Result<std::unique_ptr<GradientReducer>> TrainingProcess::MakeReducer(
    const JoinedMeeting& meeting) {
  missed_nccl_.reset();
  if (!parts_->nccl.has_value()) {
    return MakeCpuReducer(meeting);
  }
  NcclReducerOptions options;
  options.ground = parts_->nccl->ground;
  options.control = meeting.communicator;
  options.epoch = meeting.epoch;
  const bool stay_on_device = !parts_->replicas->Devices().empty();
  options.element_count = stay_on_device ? 0 : parts_->replicas->engine(0).Gradients().size();
  for (const Bucket& bucket : PlanBuckets(spec_, parts_->replicas.get()).beside) {
    options.bucket_counts.push_back(static_cast<std::size_t>(bucket.element_count));
  }
  options.is_stopped = [this] { return options_.stop->requested().load(); };
  options.loss_patience = std::max(kLossPatience, LossNoticedWithin(environment_.silent_after));
  const Deadline deadline = Deadline::After(SteadyNow(), environment_.rendezvous_timeout);
  if (spec_.communication.all_reduce == AllReduceBackend::kNccl) {
    return JoinNccl(options, deadline);
  }
  options.can_do_without = true;
  return TryNccl(options, meeting, deadline);
}

std::unique_ptr<GradientReducer> TrainingProcess::MakeCpuReducer(const JoinedMeeting& meeting) {
  return MakeHostReducer(meeting.communicator,
                         PlanBuckets(spec_, parts_->replicas.get()).beside.size());
}

// Under Auto: where all can, all do. A rank that could not join says so at the next meeting, and
// all sum by the CPU from then on.
Result<std::unique_ptr<GradientReducer>> TrainingProcess::TryNccl(const NcclReducerOptions& options,
                                                                  const JoinedMeeting& meeting,
                                                                  Deadline deadline) {
  NcclOffer& offer = *parts_->nccl;
  LOCKSTEP_ASSIGN_OR_RETURN(NcclAgreement agreement,
                            AgreeOnNccl(offer, meeting.communicator, deadline));
  if (agreement.obstacle.has_value()) {
    missed_nccl_ = agreement.is_of_devices ? std::move(agreement.obstacle) : std::nullopt;
    return MakeCpuReducer(meeting);
  }
  Result<std::unique_ptr<GradientReducer>> joined = JoinAgreedNccl(options, deadline);
  const bool is_heard_of = !joined.ok() && (joined.error().code() == ErrorCode::kPeerLost ||
                                            joined.error().code() == ErrorCode::kAborted);
  if (joined.ok() || is_heard_of || options.ground->is_stuck.load()) {
    return joined;
  }
  offer.lack = NcclObstacleKind::kFailedToJoin;
  const Error* const cause = joined.error().cause();
  offer.words = cause != nullptr ? cause->ToString() : joined.error().message();
  return Error(ErrorCode::kAborted, joined.error().ToString());
}

// Within a pod NCCL needs no network.
void TrainingProcess::LookAtNetwork() {
  if (!options_.nccl_chooses_network || environment_.world_size <= environment_.processes) {
    return;
  }
  if (const std::string cards = UnusedCards(); !cards.empty()) {
    observer_->CardsAreUnused(cards);
  }
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
  if (missed_nccl_.has_value()) {
    observer_->NcclIsMissed(*missed_nccl_);
  }
  if (std::string_view(reducer->BackendName()) == "nccl") {
    LookAtNetwork();
  }
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
      if (models_.has_value()) {
        observer_->ModelsMet(*models_);
      }
      break;
    case EndingKind::kStopped:
      observer_->Stopped();
      break;
    case EndingKind::kFailed:
      observer_->Failed();
      break;
  }
}

// Asked to stop while the gang was broken, or before all models were trained. What was trained is
// with those that are left; a model of one's own is saved when it is trained.
Ending TrainingProcess::LeaveBrokenGang() {
  const bool is_mine =
      !HasOwnModel() &&
      SaverAtStop(StopMoment::kGangIsBroken, FactsAtStop()) == Saver::kFirstOfTheHolders &&
      session_->AwaitFirstOfHolders();
  const Status saved = is_mine ? SaveForBrokenGang() : OkStatus();
  if (!saved.ok()) {
    options_.logger->Error("this rank ended without writing a checkpoint",
                           {{"error", saved.error().ToString()}});
  }
  Ending ending = EndOfBrokenGang(is_mine || has_saved_own_model_, saved);
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
// Which GPUs each has is its own affair; how many is said by its replicas.
uint64_t TrainingProcess::PlanHash() const {
  TrainingSpec plan = spec_;
  plan.devices.clear();
  const std::string digest = Sha256Hex(DumpJson(EncodeTrainingSpec(plan)));
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

}  // namespace lockstep::runtime
