#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/training/state_fingerprint.h"
#include "trainer-runtime/strategy/state_exchange.h"
#include "trainer-runtime/train/trainer.h"

// How a trainer comes to the state that it trains on from.

namespace lockstep::runtime {
namespace {

// Room for the values that are on their way to tensors and may yet fail to come. What a rank holds
// already stays where it is.
class StagedValues {
 public:
  StagedValues(const std::vector<StateValues>& tensors, const StateExchange& exchange)
      : tensors_(tensors), room_(tensors.size()) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      room_[i].resize(exchange.Holds(i) ? 0 : tensors[i].size());
    }
  }

  std::vector<StateValues> places() {
    std::vector<StateValues> places = tensors_;
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i] = room_[i].empty() ? tensors_[i] : StateValues(room_[i]);
    }
    return places;
  }

  void CopyToTensors() const {
    for (std::size_t i = 0; i < room_.size(); ++i) {
      std::ranges::copy(room_[i], tensors_[i].begin());
    }
  }

 private:
  std::vector<StateValues> tensors_;
  std::vector<std::vector<float>> room_;  // by tensor
};

std::vector<StateValues> ValuesOf(const std::vector<TensorView>& tensors) {
  std::vector<StateValues> values;
  for (const TensorView& tensor : tensors) {
    values.push_back(tensor.data);
  }
  return values;
}

}  // namespace

// Takes one state on all ranks: a survivor's, else the newest checkpoint's, else the seed's. What
// is not sent has been compared: equal bytes on all ranks are then a fact and not a belief.
Status Trainer::EstablishState(std::optional<int> state_source, RankControl* control) {
  const int source = state_source.value_or(0);
  const bool is_source = control->rank() == source;
  if (!state_source.has_value() && is_source) {
    LOCKSTEP_RETURN_IF_ERROR(RestoreFromCheckpoint());
    if (is_mixture_) {
      return Error(ErrorCode::kUnavailable,
                   "the rank that was sending its state to this rank is lost. No other rank has a "
                   "state, and there is no checkpoint. This process ends, and its replacement "
                   "starts training from the beginning");
    }
    state_.is_established = true;
  }
  LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->ReadState());
  const std::string mine = EncodeSnapshotHead(SnapHead(control->world_size()));
  const Deadline deadline = Deadline::After(SteadyNow(), kStateTimeout);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string shared, control->ShareBytes(mine, source, deadline));
  if (!is_source) {
    return AdoptState(mine, shared, {control, source, deadline});
  }
  const std::vector<StateValues> values = ValuesOf(parts_.strategy->TakeState());
  StateExchange exchange(control, source, deadline);
  LOCKSTEP_RETURN_IF_ERROR(exchange.Compare(values, HeldValues::kMaybeSame));
  return exchange.Fill(values);
}

Status Trainer::RestoreFromCheckpoint() {
  if (parts_.checkpoints == nullptr) {
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Snapshot> newest, parts_.checkpoints->LoadNewest());
  if (!newest.has_value()) {
    return OkStatus();
  }
  if (!newest->is_finite && spec_.terminate_on_nan) {
    return Error(ErrorCode::kMismatch,
                 "the newest checkpoint, of step " + std::to_string(newest->step.value()) +
                     ", contains numbers that are not finite; a job with terminateOnNaN: false can "
                     "save such a checkpoint. Remove this checkpoint to resume from an older one, "
                     "or begin in an empty folder");
  }
  Status restored = TakeOver(*newest);
  if (!restored.ok()) {
    return std::move(restored).error().Wrap(kStateDoesNotFit);
  }
  if (newest->fingerprint.empty()) {
    parts_.logger->Warn(
        "the checkpoint has the first format, which does not record activations, loss and data "
        "scale: Lockstep cannot check that they match this model",
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
  return GoOnFrom(std::move(restored));
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
Status Trainer::GoOnFrom(TrainingState restored) {
  LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->AdoptState());
  is_mixture_ = false;
  state_ = std::move(restored);
  BeginLossScale();
  PassUselessRemainder();
  return OkStatus();
}

void Trainer::PassUselessRemainder() {
  if (state_.cursor.position > 0 && !HasBatchAt(loader_.plan(), state_.cursor.position)) {
    // The remainder is dropped and the batch size is another: what is left makes no batch now.
    state_.ledger.CloseEpoch(loader_.ExpectedIds(state_.cursor.data_epoch, state_.cursor.position));
    ++state_.cursor.data_epoch;
    state_.cursor.position = 0;
  }
}

Result<Snapshot> Trainer::Snap(int world_size) {
  LOCKSTEP_RETURN_IF_ERROR(parts_.strategy->ReadState());
  return TakeSnapshot(state_, parts_.strategy->TakeState(), {spec_.seed, world_size, fingerprint_});
}

Snapshot Trainer::SnapHead(int world_size) {
  return TakeSnapshotHead(
      state_, parts_.strategy->TakeState(), {spec_.seed, world_size, fingerprint_});
}

// What differs goes straight to its place. Only a rank that holds the one state besides the
// source's keeps its own until all has come: should the source die on the way, it is all that is
// left to train on from. Others then get a state from whoever still has one, or a checkpoint.
Status Trainer::AdoptState(const std::string& mine,
                           const std::string& shared,
                           const StateWay& way) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Snapshot head, DecodeSnapshotHead(shared));
  const std::vector<TensorView> tensors = parts_.strategy->TakeState();
  const int rank = way.control->rank();
  Result<TrainingState> restored = Examine(head, tensors);
  if (!restored.ok()) {
    return std::move(restored).error().Wrap("rank " + std::to_string(rank) +
                                            " cannot take over the state with which rank " +
                                            std::to_string(way.source) + " trains");
  }
  StateExchange exchange(way.control, way.source, way.deadline);
  const std::vector<StateValues> values = ValuesOf(tensors);
  const bool had_state = state_.is_established;
  const HeldValues held = mine == shared ? HeldValues::kMaybeSame
                          : had_state    ? HeldValues::kOthers
                                         : HeldValues::kNone;
  const Status compared = exchange.Compare(values, held);
  is_mixture_ = is_mixture_ || exchange.has_begun();
  LOCKSTEP_RETURN_IF_ERROR(compared);
  if (exchange.HoldsAll() && had_state) {
    return exchange.Fill(values);
  }
  if (had_state && exchange.holder_count() == 1) {
    StagedValues staged(values, exchange);
    LOCKSTEP_RETURN_IF_ERROR(exchange.Fill(staged.places()));
    staged.CopyToTensors();
  } else {
    state_.is_established = false;
    is_mixture_ = is_mixture_ || !exchange.HoldsAll();
    LOCKSTEP_RETURN_IF_ERROR(exchange.Fill(values));
  }
  if (had_state && head.step == state_.step) {
    // Equal steps must have equal states. Going on with the source's keeps all ranks equal; the
    // warning is for whoever looks for broken memory or a mixed fleet.
    parts_.logger->Warn(
        "this rank's state differed from the source rank's state at the same step, and was "
        "replaced by it",
        {{"rank", rank}, {"source_rank", way.source}, {"step", state_.step.value()}});
  }
  return GoOnFrom(std::move(restored).value());
}

}  // namespace lockstep::runtime
