#include "trainer-runtime/cmd/training_observer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer-runtime/data/shard_plan.h"

namespace lockstep::runtime {
namespace {

// A peer's silence should be in the operator's next look; a loss is shown at once.
constexpr Duration kPeerWatchPeriod = std::chrono::milliseconds(100);

// Weight of the newest step in the running rate: half of it comes from the last seven steps.
// Choice.
constexpr double kRateWeight = 0.1;

Phase PhaseOf(TrainerPhase phase) {
  switch (phase) {
    case TrainerPhase::kRestoring:
      return Phase::kRestoring;
    case TrainerPhase::kTraining:
      return Phase::kTraining;
    case TrainerPhase::kCheckpointing:
      return Phase::kCheckpointing;
    case TrainerPhase::kEvaluating:
    case TrainerPhase::kConcluded:
      return Phase::kEvaluating;
  }
  return Phase::kTraining;
}

RecoveryCause CauseOf(LossReason reason) {
  switch (reason) {
    case LossReason::kClosed:
    case LossReason::kGone:
      return RecoveryCause::kPeerClosed;
    case LossReason::kSilent:
      return RecoveryCause::kPeerSilent;
    case LossReason::kReplaced:
      return RecoveryCause::kPeerReplaced;
    case LossReason::kMovedOn:
      return RecoveryCause::kCollectiveFailed;
  }
  return RecoveryCause::kCollectiveFailed;
}

}  // namespace

TrainingObserver::TrainingObserver(StatusBoard* board, Metrics* metrics, Logger* logger, int rank)
    : board_(board),
      metrics_(metrics),
      logger_(logger),
      rank_(rank),
      last_step_at_(SteadyNow()),
      data_epoch_began_at_(last_step_at_) {
  board_->Record(TimelineEventKind::kProcessStart, SteadyNow());
}

void TrainingObserver::WatchPeers(const Mesh* mesh) {
  peer_watch_ = std::jthread([this, mesh](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      ShowPeers(*mesh);
      std::unique_lock<std::mutex> lock(peer_mutex_);
      peer_news_.wait_for(lock, stop, kPeerWatchPeriod, [this] { return has_peer_news_; });
      has_peer_news_ = false;
    }
  });
}

void TrainingObserver::StopWatchingPeers() {
  peer_watch_ = std::jthread();  // asks the thread to stop and waits for it
}

void TrainingObserver::ShowPeers(const Mesh& mesh) {
  const std::vector<PeerStatus> peers = mesh.Peers();
  metrics_->SetPeers(CountPeers(peers));
  board_->Update([&](StatusDocument& document) { document.peers = peers; });
}

void TrainingObserver::EngineReady(const std::string& description, int replica_count) {
  board_->Record(TimelineEventKind::kEngineReady, SteadyNow());
  logger_->Info("engine ready",
                {{"rank", rank_}, {"replicas", replica_count}, {"engine", description}});
}

void TrainingObserver::LengthKnown(int64_t step_count_total) {
  board_->Update([&](StatusDocument& document) { document.steps_total = step_count_total; });
}

void TrainingObserver::RendezvousBegins() {
  board_->SetPhase(Phase::kRendezvous);
  board_->Record(TimelineEventKind::kRendezvousBegin, SteadyNow());
}

void TrainingObserver::RendezvousEnds(const Meeting& meeting) {
  board_->Update([&](StatusDocument& document) { document.epoch = meeting.epoch; });
  board_->Record(TimelineEventKind::kRendezvousEnd, SteadyNow());
  metrics_->SetEpoch(meeting.epoch);
  share_index_ = rank_;
  share_count_ = static_cast<int>(meeting.members.size());
  is_first_step_due_ = true;
  logger_->Info(
      "all ranks joined",
      {{"rank", rank_}, {"epoch", meeting.epoch.value()}, {"world_size", meeting.members.size()}});
}

void TrainingObserver::TrainsAlone() {
  share_index_ = 0;
  share_count_ = 1;
  is_first_step_due_ = true;
}

void TrainingObserver::GradientsMeet(const GradientReducer& reducer) {
  const std::string backend = reducer.BackendName();
  const std::string detail = reducer.Detail();
  board_->Update([&](StatusDocument& document) {
    document.backend = backend;
    document.backend_detail = detail;
    document.backend_reason.clear();
  });
  logger_->Info("gradient sums are set up",
                {{"rank", rank_}, {"backend", backend}, {"backend_detail", detail}});
}

void TrainingObserver::NcclIsMissed(const NcclObstacle& obstacle) {
  const std::string word = NcclObstacleWord(obstacle.kind);
  board_->Update([&](StatusDocument& document) { document.backend_reason = word; });
  logger_->Warn("gradients of GPUs are summed by the CPU, not by NCCL",
                {{"rank", rank_}, {"reason", word}, {"error", obstacle.sentence}});
}

void TrainingObserver::CardsAreUnused(const std::string& cards) {
  board_->Update([&](StatusDocument& document) {
    document.backend_detail += "; over TCP (NET/Socket), although this node has " + cards;
  });
  logger_->Warn(
      "NCCL uses TCP although this node has InfiniBand or RoCE cards, so sums between pods are "
      "slow",
      {{"rank", rank_},
       {"cards", cards},
       {"help",
        "request the cards in the pod's resources, and IPC_LOCK "
        "(docs/reference/images.md, InfiniBand and RoCE); or set NCCL_IB_DISABLE=1 in "
        "the template's env to use TCP on purpose"}});
}

void TrainingObserver::PeerLost(const PeerLoss& loss) {
  if (has_concluded_.load()) {
    return;  // it left in good order
  }
  const TimePoint now = SteadyNow();
  {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    if (!lost_at_.has_value()) {
      lost_at_ = now;
      lost_cause_ = CauseOf(loss.reason);
    }
  }
  {
    const std::lock_guard<std::mutex> lock(peer_mutex_);
    has_peer_news_ = true;
  }
  peer_news_.notify_one();
  board_->Record(TimelineEventKind::kPeerLost, now, loss.rank);
  logger_->Warn("peer lost",
                {{"rank", rank_},
                 {"peer", loss.rank},
                 {"reason", LossReasonName(loss.reason)},
                 {"epoch", loss.epoch.value()}});
}

void TrainingObserver::MeetingBroke(Epoch epoch, const Error& error) {
  {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    lost_at_ = lost_at_.value_or(SteadyNow());
  }
  logger_->Info("the rendezvous has ended, starting a new one",
                {{"rank", rank_}, {"epoch", epoch.value()}, {"error", error.ToString()}});
}

void TrainingObserver::Finished(const std::optional<EvaluationResult>& result,
                                const SampleTotals& totals) {
  CloseDataEpoch();
  board_->Update([&](StatusDocument& document) {
    document.phase = Phase::kSucceeded;
    document.samples = {totals.consumed, totals.expected, totals.lost, totals.repeated};
    document.result = TestResult{};
    if (result.has_value()) {
      document.result = TestResult{result->loss, result->accuracy};
    }
  });
  if (!result.has_value() || share_index_ != 0) {
    return;
  }
  if (result->accuracy.has_value()) {
    logger_->Info("evaluated", {{"test_loss", result->loss}, {"test_accuracy", *result->accuracy}});
  } else {
    logger_->Info("evaluated", {{"test_loss", result->loss}});
  }
}

void TrainingObserver::ModelsMet(const ModelsTogether& all) {
  board_->Update([&](StatusDocument& document) {
    document.samples = all.samples;
    document.result = all.result;
  });
}

void TrainingObserver::SamplesCounted(const SampleTotals& totals) {
  board_->Update([&](StatusDocument& document) {
    document.samples = {totals.consumed, totals.expected, totals.lost, totals.repeated};
  });
}

// One that was over before this rank came has no time here.
void TrainingObserver::DataEpochOver(DataEpochResult result) {
  if (result.timed_sample_count != 0) {
    const TimePoint now = SteadyNow();
    result.seconds = ToSeconds(now - std::exchange(data_epoch_began_at_, now));
  }
  AddToHistory(result);
}

// Not even begun: the folder does not take a writer.
void TrainingObserver::NotSaved(Step step, const Error& error) {
  OnCheckpoint(SaveOutcome{step, error, 0, {}, 0});
}

void TrainingObserver::Stopped() {
  board_->SetPhase(Phase::kStopping);
  board_->Record(TimelineEventKind::kStop, SteadyNow());
}

void TrainingObserver::Failed() {
  board_->SetPhase(Phase::kFailed);
}

TrainerHooks TrainingObserver::Hooks() {
  TrainerHooks hooks;
  hooks.on_phase = [this](TrainerPhase phase) { OnPhase(phase); };
  hooks.on_length = [this](int64_t step_count_total) { LengthKnown(step_count_total); };
  hooks.on_restored = [this](Step step) {
    board_->Update([step](StatusDocument& document) { document.checkpoints.restored_step = step; });
  };
  hooks.on_state_ready = [this](Step step, int64_t data_epoch) {
    const TimePoint now = SteadyNow();
    // Who resumed at a step stands there, though it has taken none itself.
    board_->Update([&](StatusDocument& document) {
      document.step = step;
      document.data_epoch = data_epoch;
    });
    data_epoch_began_at_ = data_epoch_.has_value() ? data_epoch_began_at_ : now;
    board_->Record(TimelineEventKind::kStateReady, now);
  };
  hooks.on_steps_skipped = [this](int64_t count) {
    board_->Update([count](StatusDocument& document) { document.steps_skipped = count; });
  };
  hooks.on_step = [this](const StepReport& report) { OnStep(report); };
  hooks.on_checkpoint = [this](const SaveOutcome& outcome) { OnCheckpoint(outcome); };
  return hooks;
}

void TrainingObserver::LogProgress(const std::optional<TrainingProgress>& progress) {
  if (!progress.has_value()) {
    return;
  }
  if (!progress->accuracy.has_value()) {
    logger_->Info("trained",
                  {{"rank", rank_},
                   {"step", progress->step.value()},
                   {"data_epoch", progress->data_epoch},
                   {"loss", progress->loss}});
    return;
  }
  logger_->Info("trained",
                {{"rank", rank_},
                 {"step", progress->step.value()},
                 {"data_epoch", progress->data_epoch},
                 {"loss", progress->loss},
                 {"accuracy", *progress->accuracy}});
}

void TrainingObserver::OnPhase(TrainerPhase phase) {
  if (phase == TrainerPhase::kEvaluating || phase == TrainerPhase::kConcluded) {
    LogProgress(progress_log_.Last());
  }
  has_concluded_.store(phase == TrainerPhase::kConcluded);
  board_->SetPhase(PhaseOf(phase));
}

void TrainingObserver::OnStep(const StepReport& report) {
  const TimePoint now = SteadyNow();
  const double seconds = std::max(1e-9, ToSeconds(now - last_step_at_));
  // Of all workers, those among them whose steps this rank takes no part in.
  const int64_t used =
      report.samples_consumed - std::exchange(samples_consumed_, report.samples_consumed);
  const double rate = static_cast<double>(std::max<int64_t>(0, used)) / seconds;
  const bool is_first = std::exchange(is_first_step_due_, false);
  // The first step after a meeting would count the meeting as slow stepping.
  if (!is_first) {
    samples_per_second_ = samples_per_second_ == 0
                              ? rate
                              : samples_per_second_ + kRateWeight * (rate - samples_per_second_);
  }
  last_step_at_ = now;
  board_->Update([&](StatusDocument& document) {
    document.step = report.step;
    document.steps_skipped = report.steps_skipped;
    document.data_epoch = report.data_epoch;
    document.loss = report.epoch_loss;
    document.accuracy = report.epoch_accuracy;
    document.samples_per_second = samples_per_second_;
    // What was lost or repeated is counted less often.
    document.samples.expected += report.samples_consumed - document.samples.consumed;
    document.samples.consumed = report.samples_consumed;
    document.step_phase_seconds = {ToSeconds(report.durations.data),
                                   ToSeconds(report.durations.compute),
                                   ToSeconds(report.durations.communicate),
                                   ToSeconds(report.durations.update)};
  });
  if (!report.is_share) {
    AddToDataEpoch(report, now);
  }
  const PositionRange own = SliceOf({0, report.sample_count}, share_index_, share_count_);
  metrics_->StepCompleted({report.step,
                           report.data_epoch,
                           own.end - own.begin,
                           report.loss,
                           report.epoch_accuracy,
                           report.durations,
                           report.is_skipped,
                           report.loss_scale});
  LogProgress(progress_log_.Next(
      {report.step, report.data_epoch, report.epoch_loss, report.epoch_accuracy}, now));
  if (is_first) {
    board_->Record(TimelineEventKind::kFirstStep, now);
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    if (lost_at_.has_value()) {
      metrics_->Recovered(lost_cause_, now - *lost_at_);
      logger_->Info("training continues",
                    {{"rank", rank_},
                     {"step", report.step.value()},
                     {"seconds", ToSeconds(now - *lost_at_)}});
      lost_at_.reset();
      lost_cause_ = RecoveryCause::kCollectiveFailed;  // unless the mesh says another of the next
    }
  }
}

// An epoch is over when a step of another one comes, or no step at all (Finished). The time in
// which training stood still is part of it, as it is on a user's clock.
void TrainingObserver::AddToDataEpoch(const StepReport& report, TimePoint now) {
  if (data_epoch_.has_value() && data_epoch_->data_epoch != report.data_epoch) {
    CloseDataEpoch();
  }
  samples_of_others_ = data_epoch_.has_value() ? samples_of_others_
                                               : report.epoch_sample_count - report.sample_count;
  data_epoch_ = DataEpochResult{report.data_epoch,
                                report.step.value(),
                                report.epoch_sample_count,
                                report.epoch_loss,
                                report.epoch_accuracy,
                                ToSeconds(now - data_epoch_began_at_)};
  if (samples_of_others_ > 0) {
    data_epoch_->timed_sample_count = report.epoch_sample_count - samples_of_others_;
  }
  if (report.epoch_loss_sample_count != report.epoch_sample_count) {
    data_epoch_->loss_sample_count = report.epoch_loss_sample_count;
  }
}

void TrainingObserver::CloseDataEpoch() {
  if (!data_epoch_.has_value()) {
    return;
  }
  data_epoch_began_at_ +=
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(data_epoch_->seconds));
  AddToHistory(*data_epoch_);
  data_epoch_.reset();
}

void TrainingObserver::AddToHistory(const DataEpochResult& result) {
  board_->Update([&](StatusDocument& document) {
    if (document.history.size() >= kStatusHistoryMax) {
      document.history.erase(document.history.begin());
    }
    document.history.push_back(result);
  });
}

void TrainingObserver::OnCheckpoint(const SaveOutcome& outcome) {
  board_->Update([&](StatusDocument& document) {
    CheckpointStatus& checkpoints = document.checkpoints;
    checkpoints.skipped += outcome.skipped;
    checkpoints.written += outcome.status.ok() ? 1 : 0;
    checkpoints.failed += outcome.status.ok() ? 0 : 1;
    checkpoints.last_error = outcome.status.ok() ? "" : outcome.status.error().ToString();
    if (outcome.status.ok()) {
      document.last_checkpoint_step = outcome.step;
    }
  });
  if (!outcome.status.ok()) {
    metrics_->CheckpointFailed();
    return;
  }
  metrics_->CheckpointWritten(outcome.duration, SystemClock().WallNow());
  board_->Record(TimelineEventKind::kCheckpointEnd, SteadyNow());
}

}  // namespace lockstep::runtime
