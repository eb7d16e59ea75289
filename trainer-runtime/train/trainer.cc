#include "trainer-runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

// Taking a common state waits for the slowest rank, and a newcomer may still be loading its engine
// from a cold disk. Choice.
constexpr Duration kStateTimeout = std::chrono::seconds(60);

// Writing the last checkpoint, for everybody who waits for the chief's disk. Choice.
constexpr Duration kFinalSaveTimeout = std::chrono::seconds(120);

// How long a rank that was asked to stop keeps stepping so that the others may be asked too: the
// signals of one request arrive within milliseconds on a host, within a second in a cluster.
// Choice.
constexpr Duration kLeaveAloneAfter = std::chrono::seconds(3);

// Samples evaluated at once: the activations of one batch stay in the cache. Choice.
constexpr int64_t kTestBatchSize = 128;

// Equal on no two (seed, step, rank), so that every rank drops other elements in every step, and
// the same ones when the step is computed again.
uint64_t DropoutSeed(int64_t seed, Step step, int rank) {
  const uint64_t of_step =
      Mix64(Mix64(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(step.value()));
  return Mix64(of_step ^ static_cast<uint64_t>(rank));
}

// Measures consecutive pieces of a step.
class Stopwatch {
 public:
  // Time since construction or the last call.
  Duration Lap() {
    const TimePoint now = SteadyNow();
    return now - std::exchange(last_, now);
  }

 private:
  TimePoint last_ = SteadyNow();
};

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
      state_(parts.train->sample_count()) {
  const int64_t steps_per_epoch = StepsPerDataEpoch(loader_.plan());
  step_count_total_ = spec.length.unit == LengthUnit::kSteps ? spec.length.count
                                                             : spec.length.count * steps_per_epoch;
}

SampleTotals Trainer::SampleTotalsNow() {
  return state_.ledger.TotalsIfClosed(
      loader_.ExpectedIds(state_.cursor.data_epoch, state_.cursor.batch_index));
}

Result<TrainerVerdict> Trainer::RunMeeting(std::optional<int> state_source,
                                           MultiWorkerMirrored* strategy,
                                           const std::atomic<bool>& stop_requested) {
  EnterPhase(TrainerPhase::kRestoring);
  LOCKSTEP_RETURN_IF_ERROR(EstablishState(state_source, strategy));
  if (hooks_.on_state_ready) {
    hooks_.on_state_ready();
  }
  EnterPhase(TrainerPhase::kTraining);
  std::optional<TimePoint> stopping_since;
  while (state_.step.value() < step_count_total_) {
    const bool is_stop_requested = stop_requested.load();
    if (is_stop_requested && !stopping_since.has_value()) {
      stopping_since = SteadyNow();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const StepTotals totals, RunStep(strategy, is_stop_requested));
    if (totals.stop_requests == strategy->world_size()) {
      const Deadline deadline = Deadline::After(SteadyNow(), kFinalSaveTimeout);
      Status saved = strategy->rank() == 0 ? SaveNow(strategy->world_size(), deadline) : OkStatus();
      LOCKSTEP_RETURN_IF_ERROR(strategy->Barrier(deadline));
      LOCKSTEP_RETURN_IF_ERROR(std::move(saved));
      return TrainerVerdict::kStopped;
    }
    if (stopping_since.has_value() && SteadyNow() - *stopping_since > kLeaveAloneAfter) {
      return TrainerVerdict::kLeft;
    }
    SaveIfDue(strategy);
  }
  LOCKSTEP_RETURN_IF_ERROR(Conclude(strategy));
  return TrainerVerdict::kFinished;
}

// Takes one state on all ranks: a survivor's, else the newest checkpoint's, else the seed's. The
// state is sent in every case: equal bytes on all ranks are then a fact and not a belief.
Status Trainer::EstablishState(std::optional<int> state_source, MultiWorkerMirrored* strategy) {
  const int source = state_source.value_or(0);
  const int rank = strategy->rank();
  if (!state_source.has_value() && rank == source) {
    LOCKSTEP_RETURN_IF_ERROR(RestoreFromCheckpoint());
    state_.is_established = true;
  }
  const std::string mine =
      state_.is_established
          ? EncodeSnapshot(TakeSnapshot(state_, parts_.engine, spec_.seed, strategy->world_size()))
          : "";
  const Deadline deadline = Deadline::After(SteadyNow(), kStateTimeout);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string shared, strategy->ShareBytes(mine, source, deadline));
  return rank == source ? OkStatus() : AdoptState(mine, shared, source, rank);
}

Status Trainer::RestoreFromCheckpoint() {
  if (parts_.checkpoints == nullptr) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Snapshot> newest, parts_.checkpoints->LoadNewest());
  if (!newest.has_value()) {
    return OkStatus();
  }
  Status restored = RestoreSnapshot(*newest, spec_.seed, &state_, parts_.engine);
  if (!restored.ok()) {
    return std::move(restored).error().Wrap(
        "the newest checkpoint does not fit this job; name another checkpoint directory to start "
        "afresh");
  }
  parts_.logger->Info("resumed from checkpoint", {{"step", newest->step.value()}});
  return OkStatus();
}

Status Trainer::AdoptState(const std::string& mine,
                           const std::string& shared,
                           int source,
                           int rank) {
  if (mine == shared) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Snapshot snapshot, DecodeSnapshot(shared));
  if (state_.is_established && snapshot.step == state_.step) {
    // Equal steps must have equal states. Going on with the source's keeps all ranks equal; the
    // warning is for whoever looks for broken memory or a mixed fleet.
    parts_.logger->Warn("state differed from the source's at the same step and was replaced",
                        {{"rank", rank}, {"source_rank", source}, {"step", state_.step.value()}});
  }
  return RestoreSnapshot(snapshot, spec_.seed, &state_, parts_.engine);
}

Result<StepTotals> Trainer::RunStep(MultiWorkerMirrored* strategy, bool is_stop_requested) {
  Stopwatch watch;
  StepDurations durations;
  const int rank = strategy->rank();
  const int64_t data_epoch = state_.cursor.data_epoch;
  const LoadedBatch batch = loader_.Load(state_.cursor, rank, strategy->world_size());
  durations.data = watch.Lap();

  const auto sample_count = static_cast<int64_t>(batch.ids.size());
  LOCKSTEP_ASSIGN_OR_RETURN(
      const StepResult computed,
      parts_.engine->ComputeGradients({batch.inputs, batch.labels, sample_count},
                                      {1.0 / static_cast<double>(batch.global_sample_count),
                                       DropoutSeed(spec_.seed, state_.step, rank)}));
  durations.compute = watch.Lap();

  const Deadline deadline = CollectiveDeadline();
  LOCKSTEP_RETURN_IF_ERROR(strategy->ReduceGradients(parts_.engine->Gradients(), deadline));
  StepTotals mine{computed.loss_sum,
                  computed.correct_count,
                  sample_count,
                  is_stop_requested ? 1 : 0,
                  {batch.ids.begin(), batch.ids.end()}};
  LOCKSTEP_ASSIGN_OR_RETURN(
      const StepTotals totals,
      strategy->ReduceTotals(mine, batch.slice_begin, batch.global_sample_count, deadline));
  durations.communicate = watch.Lap();

  LOCKSTEP_RETURN_IF_ERROR(ApplyStep(totals));
  durations.update = watch.Lap();
  ReportStep(totals, data_epoch, durations);
  return totals;
}

// The one place where the state changes. Everything that can fail because of another rank has
// succeeded before, so a rank applies the whole step or nothing of it.
Status Trainer::ApplyStep(const StepTotals& totals) {
  LOCKSTEP_RETURN_IF_ERROR(parts_.engine->ApplyUpdate(state_.step.value() + 1));
  LOCKSTEP_RETURN_IF_ERROR(state_.ledger.Add(totals.sample_ids));
  const int64_t data_epoch = state_.cursor.data_epoch;
  state_.cursor = Advance(loader_.plan(), state_.cursor);
  state_.step = state_.step.Next();
  if (state_.cursor.data_epoch != data_epoch) {
    state_.ledger.CloseEpoch(loader_.ExpectedIds(data_epoch, StepsPerDataEpoch(loader_.plan())));
  }
  return OkStatus();
}

void Trainer::ReportStep(const StepTotals& totals,
                         int64_t data_epoch,
                         const StepDurations& durations) {
  if (epoch_of_sums_ != data_epoch) {
    epoch_of_sums_ = data_epoch;
    epoch_loss_sum_ = 0;
    epoch_correct_count_ = 0;
    epoch_sample_count_ = 0;
  }
  epoch_loss_sum_ += totals.loss_sum;
  epoch_correct_count_ += totals.correct_count;
  epoch_sample_count_ += totals.sample_count;
  if (!hooks_.on_step) {
    return;
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, totals.sample_count));
  const auto epoch_count = static_cast<double>(std::max<int64_t>(1, epoch_sample_count_));
  hooks_.on_step({state_.step,
                  data_epoch,
                  totals.loss_sum / count,
                  epoch_loss_sum_ / epoch_count,
                  static_cast<double>(epoch_correct_count_) / epoch_count,
                  totals.sample_count,
                  durations});
}

void Trainer::SaveIfDue(MultiWorkerMirrored* strategy) {
  ReportCheckpoints();
  const int64_t every = spec_.checkpoint.every_steps;
  const bool is_last = state_.step.value() >= step_count_total_;  // Conclude() saves that one
  if (parts_.checkpoints == nullptr || strategy->rank() != 0 || every == 0 || is_last ||
      state_.step.value() % every != 0) {
    return;
  }
  parts_.checkpoints->SaveAsync(
      TakeSnapshot(state_, parts_.engine, spec_.seed, strategy->world_size()));
}

void Trainer::ReportCheckpoints() {
  if (parts_.checkpoints == nullptr) {
    return;
  }
  for (const SaveOutcome& outcome : parts_.checkpoints->TakeOutcomes()) {
    if (!outcome.status.ok()) {
      parts_.logger->Error(
          "checkpoint failed, training goes on",
          {{"step", outcome.step.value()}, {"error", outcome.status.error().ToString()}});
    }
    if (hooks_.on_checkpoint) {
      hooks_.on_checkpoint(outcome);
    }
  }
}

Status Trainer::SaveNow(int world_size, Deadline deadline) {
  if (parts_.checkpoints == nullptr || !state_.is_established) {
    return OkStatus();
  }
  EnterPhase(TrainerPhase::kCheckpointing);
  parts_.checkpoints->SaveAsync(TakeSnapshot(state_, parts_.engine, spec_.seed, world_size));
  Status flushed = parts_.checkpoints->Flush(deadline);
  ReportCheckpoints();
  return flushed;
}

// Every rank evaluates its slice of the test split; sums over all ranks make the result.
Status Trainer::Evaluate(MultiWorkerMirrored* strategy) {
  if (parts_.test == nullptr || parts_.test->sample_count() == 0) {
    return OkStatus();
  }
  EnterPhase(TrainerPhase::kEvaluating);
  const PositionRange slice =
      RankSlice({0, parts_.test->sample_count()}, strategy->rank(), strategy->world_size());
  StepTotals mine;
  std::vector<float> inputs;
  std::vector<float> labels;
  for (int64_t begin = slice.begin; begin < slice.end; begin += kTestBatchSize) {
    std::vector<int64_t> ids;
    for (int64_t id = begin; id < std::min(begin + kTestBatchSize, slice.end); ++id) {
      ids.push_back(id);
    }
    inputs.resize(ids.size() * static_cast<std::size_t>(parts_.test->input_width()));
    labels.resize(ids.size() * static_cast<std::size_t>(parts_.test->label_width()));
    parts_.test->Gather(ids, inputs, labels);
    const auto count = static_cast<int64_t>(ids.size());
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult result,
                              parts_.engine->Evaluate({inputs, labels, count}));
    mine.loss_sum += result.loss_sum;
    mine.correct_count += result.correct_count;
    mine.sample_count += count;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const StepTotals all,
                            strategy->ReduceTotals(mine, 0, 0, CollectiveDeadline()));
  const auto count = static_cast<double>(all.sample_count);
  test_result_ =
      EvaluationResult{all.loss_sum / count, static_cast<double>(all.correct_count) / count};
  return OkStatus();
}

// The end that all ranks agree on. Nobody leaves before the last checkpoint is written, so that a
// chief that dies while writing still finds everybody there. The second barrier tells a rank that
// the first one completed everywhere: a peer that is gone after that left in good order.
Status Trainer::Conclude(MultiWorkerMirrored* strategy) {
  LOCKSTEP_RETURN_IF_ERROR(Evaluate(strategy));
  const Deadline deadline = Deadline::After(SteadyNow(), kFinalSaveTimeout);
  if (strategy->rank() == 0) {
    Status saved = SaveNow(strategy->world_size(), deadline);
    if (!saved.ok()) {
      parts_.logger->Error("the last checkpoint could not be written",
                           {{"error", saved.error().ToString()}});
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(strategy->Barrier(deadline));
  EnterPhase(TrainerPhase::kConcluded);
  const Status all_know = strategy->Barrier(CollectiveDeadline());
  if (!all_know.ok()) {
    parts_.logger->Debug("a peer left first", {{"error", all_know.error().ToString()}});
  }
  return OkStatus();
}

Deadline Trainer::CollectiveDeadline() const {
  return Deadline::After(SteadyNow(), spec_.communication.timeout);
}

void Trainer::EnterPhase(TrainerPhase phase) {
  if (hooks_.on_phase) {
    hooks_.on_phase(phase);
  }
}

}  // namespace lockstep::runtime
