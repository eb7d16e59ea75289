#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/state_fingerprint.h"
#include "trainer-runtime/train/trainer.h"

// How a trainer comes to the state that it trains on from.

namespace lockstep::runtime {
namespace {

// Room for the values of tensors, some of which may yet fail to come.
class StagedValues {
 public:
  explicit StagedValues(const std::vector<TensorView>& tensors) {
    for (const TensorView& tensor : tensors) {
      values_.emplace_back(tensor.data.size());
    }
  }

  std::span<float> of(std::size_t tensor) { return values_[tensor]; }

  void CopyTo(const std::vector<TensorView>& tensors) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::copy(values_[i].begin(), values_[i].end(), tensors[i].data.begin());
    }
  }

 private:
  std::vector<std::vector<float>> values_;
};

}  // namespace

// Takes one state on all ranks: a survivor's, else the newest checkpoint's, else the seed's. The
// state is sent in every case: equal bytes on all ranks are then a fact and not a belief.
Status Trainer::EstablishState(std::optional<int> state_source, RankControl* control) {
  const int source = state_source.value_or(0);
  const bool is_source = control->rank() == source;
  if (!state_source.has_value() && is_source) {
    LOCKSTEP_RETURN_IF_ERROR(RestoreFromCheckpoint());
    state_.is_established = true;
  }
  const std::string mine =
      state_.is_established ? EncodeSnapshotHead(SnapHead(control->world_size())) : "";
  const Deadline deadline = Deadline::After(SteadyNow(), kStateTimeout);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string shared, control->ShareBytes(mine, source, deadline));
  if (!is_source) {
    return AdoptState(mine, shared, {control, source, deadline});
  }
  for (const TensorView& tensor : parts_.strategy->TakeState()) {
    LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const bool has_changed,
                              control->ShareValues(tensor.data, source, deadline));
  }
  return OkStatus();
}

Status Trainer::RestoreFromCheckpoint() {
  if (parts_.checkpoints == nullptr) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Snapshot> newest, parts_.checkpoints->LoadNewest());
  if (!newest.has_value()) {
    return OkStatus();
  }
  Status restored = TakeOver(*newest);
  if (!restored.ok()) {
    return std::move(restored).error().Wrap(kStateDoesNotFit);
  }
  if (newest->fingerprint.empty()) {
    parts_.logger->Warn(
        "checkpoint of the first format: whether it was made with this model's activations, loss "
        "and data scale cannot be told",
        {{"step", newest->step.value()}});
  }
  parts_.logger->Info("resumed from checkpoint", {{"step", newest->step.value()}});
  if (hooks_.on_restored) {
    hooks_.on_restored(newest->step);
  }
  return OkStatus();
}

// Goes on from `snapshot`, if it belongs to this job. On error state_ is as it was.
Status Trainer::TakeOver(const Snapshot& snapshot) {
  const std::vector<TensorView> tensors = parts_.strategy->TakeState();
  LOCKSTEP_ASSIGN_OR_RETURN(TrainingState restored, Examine(snapshot, tensors));
  LOCKSTEP_RETURN_IF_ERROR(RestoreTensors(snapshot, tensors));
  GoOnFrom(std::move(restored));
  return OkStatus();
}

// The state that a snapshot tells, if it belongs to this job; its values are not looked at.
Result<TrainingState> Trainer::Examine(const Snapshot& snapshot,
                                       const std::vector<TensorView>& tensors) {
  LOCKSTEP_RETURN_IF_ERROR(CompareFingerprints(snapshot.fingerprint, fingerprint_));
  TrainingState restored(parts_.train->sample_count());
  LOCKSTEP_RETURN_IF_ERROR(RestoreState(snapshot, spec_.seed, tensors, &restored));
  LOCKSTEP_RETURN_IF_ERROR(CheckCursor(restored, &loader_));
  return restored;
}

// The tensors hold the values that belong to `restored`.
void Trainer::GoOnFrom(TrainingState restored) {
  parts_.strategy->AdoptState();
  state_ = std::move(restored);
  PassUselessRemainder();
}

void Trainer::PassUselessRemainder() {
  if (state_.cursor.position > 0 && !HasBatchAt(loader_.plan(), state_.cursor.position)) {
    // The remainder is dropped and the batch size is another: what is left makes no batch now.
    state_.ledger.CloseEpoch(loader_.ExpectedIds(state_.cursor.data_epoch, state_.cursor.position));
    ++state_.cursor.data_epoch;
    state_.cursor.position = 0;
  }
}

Snapshot Trainer::Snap(int world_size) {
  return TakeSnapshot(state_, parts_.strategy->TakeState(), {spec_.seed, world_size, fingerprint_});
}

Snapshot Trainer::SnapHead(int world_size) {
  return TakeSnapshotHead(
      state_, parts_.strategy->TakeState(), {spec_.seed, world_size, fingerprint_});
}

// A rank at the source's step has the values already, and needs no room for them. Others keep what
// they have until all have come: should the source die on the way, a state from a step before, or
// that of the seed, may be all that is left to train on from.
Status Trainer::AdoptState(const std::string& mine,
                           const std::string& shared,
                           const StateWay& way) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Snapshot head, DecodeSnapshotHead(shared));
  const std::vector<TensorView> tensors = parts_.strategy->TakeState();
  const int rank = way.control->rank();
  Result<TrainingState> restored = Examine(head, tensors);
  if (!restored.ok()) {
    return std::move(restored).error().Wrap("rank " + std::to_string(rank) + " has not what rank " +
                                            std::to_string(way.source) + " trains with");
  }
  bool differs = mine != shared;
  std::optional<StagedValues> staged;
  if (differs) {
    staged.emplace(tensors);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<float> values = staged.has_value() ? staged->of(i) : tensors[i].data;
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_changed,
                              way.control->ShareValues(values, way.source, way.deadline));
    differs = differs || has_changed;
  }
  if (!differs) {
    return OkStatus();
  }
  if (staged.has_value()) {
    staged->CopyTo(tensors);
  }
  if (state_.is_established && head.step == state_.step) {
    // Equal steps must have equal states. Going on with the source's keeps all ranks equal; the
    // warning is for whoever looks for broken memory or a mixed fleet.
    parts_.logger->Warn(
        "state differed from the source's at the same step and was replaced",
        {{"rank", rank}, {"source_rank", way.source}, {"step", state_.step.value()}});
  }
  GoOnFrom(std::move(restored).value());
  return OkStatus();
}

}  // namespace lockstep::runtime
