#pragma once

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
  bool is_finite = true;             // whether every value of the tensors is a finite number
  std::string ledger;                // opaque bytes: the sample counters
  std::vector<NamedTensor> tensors;  // parameters, then optimizer slots

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Who writes into a checkpoint directory. A later (attempt, epoch) takes over from an earlier one.
struct WriterIdentity {
  std::string job_uid;
  Attempt attempt;
  Epoch epoch;
  Incarnation incarnation;

  friend bool operator==(const WriterIdentity&, const WriterIdentity&) = default;
};

}  // namespace lockstep::runtime
