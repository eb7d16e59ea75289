#include "trainer-runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/stopwatch.h"
#include "trainer-runtime/strategy/finite.h"
#include "trainer-runtime/train/dropout_seed.h"
#include "trainer-runtime/train/evaluation.h"
#include "trainer-runtime/train/fingerprint.h"

namespace lockstep::runtime {
namespace {

// Writing the last checkpoint, for everybody who waits for the chief's disk. Choice.
constexpr Duration kFinalSaveTimeout = std::chrono::seconds(120);

// How long a rank that was asked to stop keeps stepping so that the others may be asked too: the
// signals of one request arrive within milliseconds on a host, within a second in a cluster.
// Choice.
constexpr Duration kLeaveAloneAfter = std::chrono::seconds(3);

// The loss of a skipped step is a number that people see, unless it was too large as well.
bool IsInSums(const StepTotals& totals, bool is_skipped) {
  return !is_skipped || std::isfinite(totals.loss_sum);
}

BatchPlan PlanOf(const TrainingSpec& spec, const Dataset& train) {
  return {train.sample_count(), spec.global_batch_size, spec.remainder};
}

}  // namespace

Result<Trainer> Trainer::Make(const TrainingSpec& spec, TrainerParts parts, TrainerHooks hooks) {
  LOCKSTEP_RETURN_IF_ERROR(CheckInputShape(*parts.train, spec.model.input_shape));
  if (StepsPerDataEpoch(PlanOf(spec, *parts.train)) == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 std::to_string(spec.global_batch_size) + " found, but the data set has only " +
                     std::to_string(parts.train->sample_count()) +
                     " training samples and the remainder is dropped, so no step is possible")
        .WithField("spec.training.globalBatchSize");
  }
  return Trainer(spec, parts, std::move(hooks));
}

Trainer::Trainer(const TrainingSpec& spec, TrainerParts parts, TrainerHooks hooks)
    : spec_(spec),
      parts_(parts),
      hooks_(std::move(hooks)),
      loader_(parts.train, {PlanOf(spec, *parts.train), spec.seed, spec.dataset.shuffle}),
      state_(parts.train->sample_count()),
      fingerprint_(MakeFingerprint(spec, *parts.train)) {
  BeginLossScale();
}

int64_t Trainer::step_count_total() const {
  if (spec_.length.unit == LengthUnit::kSteps) {
    return spec_.length.count;
  }
  const int64_t epochs_left = spec_.length.count - state_.cursor.data_epoch;
  if (epochs_left <= 0) {
    // A job that was made shorter asks for less than it has; one at its end has what it asked for,
    // whatever its batches were before.
    const bool is_beyond = epochs_left < 0 || state_.cursor.position > 0;
    const int64_t asked = spec_.length.count * StepsPerDataEpoch(loader_.plan());
    return is_beyond ? std::min(asked, state_.step.value()) : state_.step.value();
  }
  return state_.step.value() + StepsLeftInDataEpoch(loader_.plan(), state_.cursor.position) +
         (epochs_left - 1) * StepsPerDataEpoch(loader_.plan());
}

bool Trainer::IsTrained() const {
  return spec_.length.unit == LengthUnit::kSteps ? state_.step.value() >= spec_.length.count
                                                 : state_.cursor.data_epoch >= spec_.length.count;
}

bool Trainer::HasAccuracy() const {
  return spec_.loss.type != LossType::kMeanSquaredError;
}

std::optional<double> Trainer::training_loss() const {
  if (state_.sums.sample_count == 0) {
    return std::nullopt;
  }
  return state_.sums.loss_sum / static_cast<double>(state_.sums.sample_count);
}

SampleTotals Trainer::SampleTotalsNow() {
  return state_.ledger.TotalsIfClosed(
      loader_.ExpectedIds(state_.cursor.data_epoch, state_.cursor.position));
}

Result<TrainerVerdict> Trainer::RunMeeting(std::optional<int> state_source,
                                           const MeetingParts& meeting,
                                           const std::atomic<bool>& stop_requested) {
  RankControl* const control = meeting.control;
  EnterPhase(TrainerPhase::kRestoring);
  LOCKSTEP_RETURN_IF_ERROR(EstablishState(state_source, control));
  TellStateReady(state_.step, state_.cursor.data_epoch);
  if (hooks_.on_length) {
    hooks_.on_length(step_count_total());
  }
  EnterPhase(TrainerPhase::kTraining);
  std::optional<TimePoint> stopping_since;
  while (!IsTrained()) {
    const bool is_stop_requested = stop_requested.load();
    if (is_stop_requested && !stopping_since.has_value()) {
      stopping_since = SteadyNow();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const StepTotals totals, RunStep(meeting, is_stop_requested));
    if (!trouble_.empty()) {
      return GiveUp(control);
    }
    if (totals.stop_requests == control->world_size()) {
      return StopTogether(control);
    }
    if (stopping_since.has_value() && SteadyNow() - *stopping_since > kLeaveAloneAfter) {
      return TrainerVerdict::kLeft;
    }
    LOCKSTEP_RETURN_IF_ERROR(ReportCheckpoints());
    if (!IsSaveDue()) {
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const bool is_finite, IsStateFinite());
    if (!is_finite) {
      return GiveUp(control);
    }
    if (control->rank() == 0) {
      LOCKSTEP_ASSIGN_OR_RETURN(Snapshot snapshot, Snap(control->world_size()));
      parts_.checkpoints->SaveAsync(std::move(snapshot));
    }
  }
  return Conclude(control);
}

Result<StepTotals> Trainer::RunStep(const MeetingParts& meeting, bool is_stop_requested) {
  Stopwatch watch;
  StepDurations durations;
  RankControl* const control = meeting.control;
  const int replica_count = parts_.strategy->replicas().count();
  const ReplicaRange range{
      control->rank() * replica_count, replica_count, control->world_size() * replica_count};
  const LoadedBatch batch = loader_.Load(state_.cursor, range);
  std::vector<ReplicaShare> shares;
  for (const LoadedShare& share : batch.shares) {
    shares.push_back({{share.inputs, share.labels, share.sample_count}, share.slice_begin});
  }
  durations.data = watch.Lap();

  const ReplicaStep step{.shares = shares,
                         .gradient_scale = 1.0 / static_cast<double>(batch.global_sample_count),
                         .dropout_seed = DropoutSeed(spec_.seed, state_.step),
                         .loss_scale = LossScaleNow(),
                         .update = UpdateAhead(*control),
                         .next = BatchesAhead(range),
                         .is_prefetched = batch.was_loaded_ahead};
  std::vector<double> list;  // of the totals, which travel with the gradients
  const auto pack = [&](const StepResult& sums) -> std::span<double> {
    list = PackTotals({sums.loss_sum,
                       sums.correct_count,
                       static_cast<int64_t>(batch.ids.size()),
                       is_stop_requested ? 1 : 0,
                       sums.overflow_count,
                       {batch.ids.begin(), batch.ids.end()}},
                      batch.slice_begin,
                      batch.global_sample_count);
    return list;
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      const StepOutcome computed,
      parts_.strategy->Step(step, {meeting.reducer, CollectiveDeadline(), pack}));
  StepTotals totals = UnpackTotals(list);
  if (computed.are_sums_of_all) {
    totals.loss_sum = computed.sums.loss_sum;
    totals.correct_count = computed.sums.correct_count;
    totals.overflow_count = computed.sums.overflow_count;
  }
  LogNotices();
  durations.compute = computed.compute;
  durations.communicate = computed.exchange;
  watch.Lap();

  // A sum over all replicas of all ranks, so that they skip it alike.
  const bool is_skipped = spec_.precision == Precision::kFloat16 && totals.overflow_count > 0;
  LOCKSTEP_ASSIGN_OR_RETURN(const bool may_take, MayTake(totals, is_skipped));
  if (computed.is_guarded) {
    LOCKSTEP_CHECK(computed.sums.is_updated == (may_take && !is_skipped),
                   "the device and the host disagree about step " +
                       std::to_string(state_.step.value() + 1) + "");
  }
  if (!may_take) {
    return totals;  // not applied: the last finite state stays
  }
  const int64_t epoch_sample_count = BatchAt(loader_.plan(), state_.cursor.position).end;
  LOCKSTEP_RETURN_IF_ERROR(ApplyStep(totals, is_skipped, computed.is_guarded));
  durations.update = watch.Lap();
  ReportStep(totals, durations, is_skipped, epoch_sample_count);
  return totals;
}

// Whether training goes on with this step; if not, trouble_ says why. Loss and gradients are sums
// over all ranks, equal on each to the last bit: so is the answer.
Result<bool> Trainer::MayTake(const StepTotals& totals, bool is_skipped) {
  if (is_skipped) {
    return MaySkip();
  }
  if (!spec_.terminate_on_nan) {
    return true;
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckFinite(totals.loss_sum, state_.step.value() + 1));
  return trouble_.empty();
}

// What is not finite of a step's loss and gradients is the trouble. Errors: those of Engine.
Status Trainer::CheckFinite(double loss_sum, int64_t update) {
  const std::string step = std::to_string(update);
  if (!std::isfinite(loss_sum)) {
    trouble_ = "the loss of step " + step + " is " + (std::isnan(loss_sum) ? "NaN" : "inf");
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool are_finite, parts_.strategy->AreGradientsFinite());
    if (are_finite) {
      return OkStatus();
    }
    trouble_ = "the gradients of step " + step + " are not finite";
  }
  trouble_ +=
      ": the model has diverged; a smaller learning rate may help (to continue training anyway, "
      "set spec.training.terminateOnNaN: false)";
  return OkStatus();
}

// An update of finite gradients may still overflow; nothing of that is ever saved.
// Errors: those of Engine.
Result<bool> Trainer::IsStateFinite() {
  if (!spec_.terminate_on_nan) {
    return true;
  }
  LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->ReadState());
  for (const TensorView& tensor : parts_.strategy->TakeState()) {
    if (!AllFinite(tensor.data)) {
      trouble_ = "after step " + std::to_string(state_.step.value()) + ", " + tensor.name +
                 " is not finite: the model has diverged; a smaller learning rate may help (to "
                 "continue training anyway, set spec.training.terminateOnNaN: false)";
      return false;
    }
  }
  return true;
}

Status Trainer::ClipGradients() {
  return spec_.gradient_clip_norm.has_value()
             ? parts_.strategy->ClipGradients(*spec_.gradient_clip_norm)
             : OkStatus();
}

// The one place where the state changes. Everything that can fail because of another rank has
// succeeded before, so a rank applies the whole step or nothing of it. `is_guarded`: the device has
// taken the update with the step.
Status Trainer::ApplyStep(const StepTotals& totals, bool is_skipped, bool is_guarded) {
  if (!is_skipped && !is_guarded) {
    LOCKSTEP_RETURN_IF_ERROR(ClipGradients());
    LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->Apply(state_.updates() + 1));
  }
  LOCKSTEP_RETURN_IF_ERROR(state_.ledger.Add(totals.sample_ids));
  const DataCursor used = state_.cursor;
  if (state_.sums.data_epoch != used.data_epoch) {
    state_.sums = EpochSums{used.data_epoch, 0, 0, 0};
  }
  if (IsInSums(totals, is_skipped)) {
    state_.sums.loss_sum += totals.loss_sum;
    state_.sums.correct_count += totals.correct_count;
    state_.sums.sample_count += totals.sample_count;
  }
  MoveLossScale(is_skipped);
  state_.cursor = Advance(loader_.plan(), used);
  state_.step = state_.step.Next();
  if (state_.cursor.data_epoch != used.data_epoch) {
    const int64_t end = BatchAt(loader_.plan(), used.position).end;
    state_.ledger.CloseEpoch(loader_.ExpectedIds(used.data_epoch, end));
  }
  return OkStatus();
}

void Trainer::ReportStep(const StepTotals& totals,
                         const StepDurations& durations,
                         bool is_skipped,
                         int64_t epoch_sample_count) {
  if (!hooks_.on_step) {
    return;
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, totals.sample_count));
  // Of no samples there is neither: 0 / 0.
  const auto loss_count = static_cast<double>(state_.sums.sample_count);
  StepReport report;
  report.step = state_.step;
  report.data_epoch = state_.sums.data_epoch;
  report.loss = totals.loss_sum / count;
  report.epoch_loss = state_.sums.loss_sum / loss_count;
  if (HasAccuracy() && state_.sums.sample_count > 0) {
    report.epoch_accuracy = static_cast<double>(state_.sums.correct_count) / loss_count;
  }
  report.epoch_sample_count = epoch_sample_count;
  report.epoch_loss_sample_count = state_.sums.sample_count;
  report.sample_count = totals.sample_count;
  report.samples_consumed = state_.ledger.totals().consumed;
  report.is_skipped = is_skipped;
  report.steps_skipped = state_.steps_skipped();
  report.loss_scale = LossScaleNow();
  report.durations = durations;
  hooks_.on_step(report);
}

// The same on every rank; Conclude() saves the last one.
bool Trainer::IsSaveDue() const {
  const int64_t every = spec_.checkpoint.every_steps;
  return parts_.checkpoints != nullptr && every != 0 && !IsTrained() &&
         state_.step.value() % every == 0;
}

// Errors: kAlreadyExists (another job has taken the directory over: nothing that this one trains
// from here on could ever be saved).
Status Trainer::ReportCheckpoints() {
  Status lost;
  if (parts_.checkpoints == nullptr) {
    return lost;
  }
  for (const SaveOutcome& outcome : parts_.checkpoints->TakeOutcomes()) {
    ReportCheckpoint(outcome);
    if (!outcome.status.ok() && outcome.status.error().code() == ErrorCode::kAlreadyExists) {
      lost = outcome.status;
    }
  }
  return lost;
}

void Trainer::ReportCheckpoint(const SaveOutcome& outcome) {
  if (!outcome.status.ok()) {
    parts_.logger->Warn(
        "checkpoint not written",
        {{"step", outcome.step.value()}, {"error", outcome.status.error().ToString()}});
  }
  if (outcome.skipped > 0 && !has_told_of_skips_) {
    has_told_of_skips_ = true;  // once: it may be so at every step
    parts_.logger->Warn(
        "checkpoints are skipped, because the disk is too slow for checkpoint.everySteps; the "
        "status counts them",
        {{"skipped", outcome.skipped}});
  }
  if (hooks_.on_checkpoint) {
    hooks_.on_checkpoint(outcome);
  }
}

Status Trainer::SaveNow(int world_size, Deadline deadline) {
  if (parts_.checkpoints == nullptr || !state_.is_established) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_finite, IsStateFinite());
  if (!is_finite) {
    return Error(ErrorCode::kAborted, trouble_);
  }
  EnterPhase(TrainerPhase::kCheckpointing);
  LOCKSTEP_ASSIGN_OR_RETURN(Snapshot snapshot, Snap(world_size));
  parts_.checkpoints->SaveAsync(std::move(snapshot));
  Status flushed = parts_.checkpoints->Flush(deadline);
  [[maybe_unused]] const Status told = ReportCheckpoints();  // `flushed` says the same
  if (!flushed.ok() && flushed.error().code() == ErrorCode::kTimeout) {
    ReportCheckpoint(SaveOutcome{state_.step, flushed, 0, {}, 0});  // it has no outcome of its own
  }
  return flushed;
}

Status Trainer::Evaluate(RankControl* control) {
  if (parts_.test == nullptr || parts_.test->sample_count() == 0) {
    return OkStatus();
  }
  EnterPhase(TrainerPhase::kEvaluating);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const StepTotals all,
      EvaluateSplit(&parts_.strategy->replicas(), *parts_.test, control, CollectiveDeadline()));
  const auto count = static_cast<double>(all.sample_count);
  test_result_ = EvaluationResult{all.loss_sum / count, std::nullopt};
  if (HasAccuracy()) {
    test_result_->accuracy = static_cast<double>(all.correct_count) / count;
  }
  return OkStatus();
}

// Lets the chief save and tells every rank how it went: trouble_ stays empty when it went well.
// Nobody leaves before, so that a chief that dies while writing still finds everybody there.
// Errors: kStale (a newer chief has taken over), those of Communicator.
Status Trainer::SaveTogether(RankControl* control) {
  std::string mine;
  if (control->rank() == 0) {
    Status saved = SaveNow(control->world_size(), Deadline::After(SteadyNow(), kFinalSaveTimeout));
    if (!saved.ok() && saved.error().code() == ErrorCode::kStale) {
      return saved;
    }
    mine = saved.ok() ? "" : saved.error().ToString();
  }
  const Deadline deadline = Deadline::After(SteadyNow(), kFinalSaveTimeout + kStateTimeout);
  LOCKSTEP_ASSIGN_OR_RETURN(trouble_, control->ShareBytes(mine, 0, deadline));
  if (!trouble_.empty()) {
    trouble_ = "the last checkpoint could not be written: " + trouble_;
  }
  return control->Barrier(deadline);
}

Result<TrainerVerdict> Trainer::StopTogether(RankControl* control) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_finite, IsStateFinite());
  if (!is_finite) {
    return GiveUp(control);
  }
  LOCKSTEP_RETURN_IF_ERROR(SaveTogether(control));
  return trouble_.empty() ? TrainerVerdict::kStopped : TrainerVerdict::kStoppedUnsaved;
}

// Ends with the trouble that all ranks have found. Whoever leaves first would look lost to the
// others, so they wait for each other; one that is really lost changes nothing.
Result<TrainerVerdict> Trainer::GiveUp(RankControl* control) {
  const Status met = control->Barrier(CollectiveDeadline());
  if (!met.ok()) {
    parts_.logger->Debug("a peer left before this rank", {{"error", met.error().ToString()}});
  }
  [[maybe_unused]] const Status told = ReportCheckpoints();
  return TrainerVerdict::kDiverged;
}

// The end that all ranks agree on. The second barrier tells a rank that SaveTogether's completed
// everywhere: a peer that is gone after that left in good order.
Result<TrainerVerdict> Trainer::Conclude(RankControl* control) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_finite, IsStateFinite());
  if (!is_finite) {
    return GiveUp(control);
  }
  LOCKSTEP_RETURN_IF_ERROR(Evaluate(control));
  LOCKSTEP_RETURN_IF_ERROR(SaveTogether(control));
  EnterPhase(TrainerPhase::kConcluded);
  const Status all_know = control->Barrier(CollectiveDeadline());
  if (!all_know.ok()) {
    parts_.logger->Debug("a peer left before this rank", {{"error", all_know.error().ToString()}});
  }
  if (!trouble_.empty()) {
    return TrainerVerdict::kNotSaved;
  }
  const SampleTotals totals = SampleTotalsNow();
  if (totals.lost != 0 || totals.repeated != 0) {
    trouble_ = "of " + std::to_string(totals.expected) + " samples, " +
               std::to_string(totals.lost) + " were lost and " + std::to_string(totals.repeated) +
               " were used more often than once";
    return TrainerVerdict::kInexact;
  }
  return TrainerVerdict::kFinished;
}

Deadline Trainer::CollectiveDeadline() const {
  return Deadline::After(SteadyNow(), spec_.communication.timeout);
}

void Trainer::TellStateReady(Step step, int64_t data_epoch) {
  if (hooks_.on_state_ready) {
    hooks_.on_state_ready(step, data_epoch);
  }
  if (hooks_.on_steps_skipped) {
    hooks_.on_steps_skipped(state_.steps_skipped());
  }
}

void Trainer::EnterPhase(TrainerPhase phase) {
  if (hooks_.on_phase) {
    hooks_.on_phase(phase);
  }
}

}  // namespace lockstep::runtime
