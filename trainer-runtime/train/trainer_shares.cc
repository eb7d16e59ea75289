#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "trainer-runtime/train/dropout_seed.h"
#include "trainer-runtime/train/trainer.h"

// How a rank trains whose model is on parameter servers.

namespace lockstep::runtime {

Status Trainer::TakeOwnState() {
  EnterPhase(TrainerPhase::kRestoring);
  return RestoreFromCheckpoint();
}

std::string Trainer::TellHead(int world_size) {
  return EncodeSnapshotHead(SnapHead(world_size));
}

Status Trainer::TakeHead(const std::string& head, int64_t updates) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Snapshot snapshot, DecodeSnapshotHead(head));
  LOCKSTEP_ASSIGN_OR_RETURN(TrainingState state, Examine(snapshot, parts_.strategy->TakeState()));
  state_ = std::move(state);
  PassUselessRemainder();
  state_.is_established = false;
  const DataCursor cursor = CursorAfter(state_.cursor, updates - state_.updates());
  TellStateReady(Step(updates + state_.steps_skipped()), cursor.data_epoch);
  if (hooks_.on_length) {
    hooks_.on_length(step_count_total());
  }
  EnterPhase(TrainerPhase::kTraining);
  return OkStatus();
}

std::vector<int64_t> Trainer::VariableSizes() {
  std::vector<int64_t> sizes;
  for (const TensorView& tensor : parts_.strategy->TakeState()) {
    if (tensor.kind == TensorKind::kParameter) {
      sizes.push_back(static_cast<int64_t>(tensor.data.size()));
    }
  }
  return sizes;
}

Result<std::vector<float>> Trainer::ReadValues(TensorKind kind) {
  LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->ReadState());
  std::vector<float> values;
  for (const TensorView& tensor : parts_.strategy->TakeState()) {
    if (tensor.kind == kind) {
      values.insert(values.end(), tensor.data.begin(), tensor.data.end());
    }
  }
  return values;
}

Status Trainer::WriteValues(std::span<const float> parameters, std::span<const float> slots) {
  if (slots.empty()) {  // they go back with the rest
    LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->ReadState());
  }
  for (const TensorView& tensor : parts_.strategy->TakeState()) {
    std::span<const float>& values = tensor.kind == TensorKind::kParameter ? parameters : slots;
    if (values.empty()) {
      continue;
    }
    std::copy_n(values.begin(), tensor.data.size(), tensor.data.begin());
    values = values.subspan(tensor.data.size());
  }
  return parts_.strategy->AdoptState();
}

DataCursor Trainer::CursorAfter(DataCursor cursor, int64_t updates) const {
  for (int64_t i = 0; i < updates; ++i) {
    cursor = Advance(loader_.plan(), cursor);
  }
  return cursor;
}

Result<StepOutcome> Trainer::ComputeShare(const DataCursor& cursor,
                                          int64_t update,
                                          GradientReducer* alone) {
  const int replica_count = parts_.strategy->replicas().count();
  const LoadedBatch batch = loader_.Load(cursor, {0, replica_count, replica_count});
  std::vector<ReplicaShare> shares;
  for (const LoadedShare& share : batch.shares) {
    shares.push_back({{share.inputs, share.labels, share.sample_count}, share.slice_begin});
  }
  const ReplicaStep step{shares,
                         1.0 / static_cast<double>(batch.global_sample_count),
                         DropoutSeed(spec_.seed, Step(update - 1))};
  LOCKSTEP_ASSIGN_OR_RETURN(const StepOutcome computed,
                            parts_.strategy->Step(step, {alone, CollectiveDeadline()}));
  if (spec_.terminate_on_nan) {
    LOCKSTEP_RETURN_IF_ERROR(CheckFinite(computed.sums.loss_sum, update));
  }
  LOCKSTEP_RETURN_IF_ERROR(ClipGradients());  // they are those of a whole batch, as everybody's are
  return computed;
}

void Trainer::ReportShare(const UpdatesMade& made,
                          const DataCursor& cursor,
                          const EpochSums& own,
                          double loss) {
  if (!hooks_.on_step) {
    return;
  }
  const PositionRange batch = BatchAt(loader_.plan(), cursor.position);
  StepReport report;
  report.step = Step(made.count);
  report.data_epoch = cursor.data_epoch;
  report.is_share = true;
  report.loss = loss;
  report.epoch_loss = own.loss_sum / static_cast<double>(std::max<int64_t>(1, own.sample_count));
  if (HasAccuracy()) {
    report.epoch_accuracy = static_cast<double>(own.correct_count) /
                            static_cast<double>(std::max<int64_t>(1, own.sample_count));
  }
  report.sample_count = batch.size();
  report.samples_consumed = made.sample_count;
  report.steps_skipped = state_.steps_skipped();
  hooks_.on_step(report);
}

DataEpochResult Trainer::DataEpochOf(const EpochSums& sums,
                                     Step last_step,
                                     int64_t samples_end) const {
  const auto count = static_cast<double>(std::max<int64_t>(1, sums.sample_count));
  DataEpochResult result;
  result.data_epoch = sums.data_epoch;
  result.step = last_step.value();
  result.sample_count = samples_end;
  result.loss = sums.loss_sum / count;
  if (HasAccuracy()) {
    result.accuracy = static_cast<double>(sums.correct_count) / count;
  }
  if (sums.sample_count != samples_end) {
    result.loss_sample_count = sums.sample_count;
  }
  return result;
}

Status Trainer::CountUpTo(Step step, const EpochSums& sums) {
  while (state_.step < step) {
    const DataCursor used = state_.cursor;
    const PositionRange batch = BatchAt(loader_.plan(), used.position);
    const std::span<const int64_t> ids = loader_.ExpectedIds(used.data_epoch, batch.end);
    LOCKSTEP_RETURN_IF_ERROR(state_.ledger.Add(ids.subspan(static_cast<std::size_t>(batch.begin))));
    state_.cursor = Advance(loader_.plan(), used);
    state_.step = state_.step.Next();
    if (state_.cursor.data_epoch != used.data_epoch) {
      state_.ledger.CloseEpoch(loader_.ExpectedIds(used.data_epoch, batch.end));
    }
  }
  state_.sums = sums;
  return OkStatus();
}

Status Trainer::SaveCounted(int world_size) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_finite, IsStateFinite());
  if (!is_finite) {
    return Error(ErrorCode::kAborted, trouble_);
  }
  if (parts_.checkpoints != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(Snapshot snapshot, Snap(world_size));
    parts_.checkpoints->SaveAsync(std::move(snapshot));
  }
  return ReportCheckpoints();
}

int64_t Trainer::NextSave(int64_t after) const {
  const int64_t end = last_step();
  const int64_t every = spec_.checkpoint.every_steps;
  return parts_.checkpoints == nullptr || every == 0 ? end
                                                     : std::min(end, (after / every + 1) * every);
}

}  // namespace lockstep::runtime
