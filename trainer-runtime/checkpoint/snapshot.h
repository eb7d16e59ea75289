#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/strong_id.h"

namespace lockstep::runtime {

// A named float32 tensor, detached from any engine. Shapes: values [product of shape], row-major.
struct NamedTensor {
  std::string name;  // canonical, unique within a snapshot: "layer0/kernel/adam_m"
  std::vector<int64_t> shape;
  std::vector<float> values;

  friend bool operator==(const NamedTensor&, const NamedTensor&) = default;
};

// The data cursor as it is saved.
struct SavedCursor {
  int64_t data_epoch = 0;
  // Absent in checkpoints of the first format, which counted batches of a size that they did not
  // tell: the open counters of the ledger then say it.
  std::optional<int64_t> position;
  int64_t samples_consumed = 0;

  friend bool operator==(const SavedCursor&, const SavedCursor&) = default;
};

// Sums over the steps of a data epoch so far, for the training loss and accuracy that people see.
struct SavedSums {
  int64_t data_epoch = 0;
  std::optional<double> loss_sum;  // absent when it is not a finite number
  int64_t correct_count = 0;
  int64_t sample_count = 0;

  friend bool operator==(const SavedSums&, const SavedSums&) = default;
};

// How the gradients of a training in Float16 are kept within its range: backward works on `scale`
// times the loss. What moves it: train/loss_scale.h.
struct LossScale {
  int64_t scale = 65536;   // a power of two, 1 to kLossScaleMax
  int64_t good_steps = 0;  // since it changed, in a row
  // Steps that changed nothing, since the job began: an optimizer that counts its updates has to
  // leave them out.
  int64_t steps_skipped = 0;

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

// Far above what finite gradients of any use come from, and its inverse is far above float32's
// smallest number. Choice.
inline constexpr int64_t kLossScaleMax = int64_t{1} << 40U;

// Whether such a scale can have come about; what is read may be anything.
inline bool IsSound(const LossScale& scale) {
  return scale.scale >= 1 && scale.scale <= kLossScaleMax &&
         std::has_single_bit(static_cast<uint64_t>(scale.scale)) && scale.good_steps >= 0 &&
         scale.steps_skipped >= 0;
}

// All that training needs to go on as though it had never stopped: independent of the strategy and
// of the number of ranks that made it.
struct Snapshot {
  Step step;
  SavedCursor cursor;
  int64_t seed = 0;
  int world_size = 1;  // when it was taken; for people
  // Opaque JSON object: the settings without which the rest means something else. Empty in
  // checkpoints of the first format.
  std::string fingerprint;
  SavedSums sums;
  std::optional<LossScale> loss_scale;  // absent where nothing was ever trained in Float16
  bool is_finite = true;                // whether every value of the tensors is a finite number
  std::string ledger;                   // opaque bytes: the sample counters
  std::vector<NamedTensor> tensors;     // parameters, then optimizer slots

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Who writes into a checkpoint directory. A later one takes over from an earlier one: see
// Outranks in fence.h.
struct WriterIdentity {
  std::string job_uid;
  Attempt attempt;
  Epoch epoch;
  Incarnation incarnation;

  friend bool operator==(const WriterIdentity&, const WriterIdentity&) = default;
};

}  // namespace lockstep::runtime
