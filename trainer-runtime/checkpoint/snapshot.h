#pragma once

#include <cstdint>
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
  int64_t batch_index = 0;
  int64_t samples_consumed = 0;

  friend bool operator==(const SavedCursor&, const SavedCursor&) = default;
};

// All that training needs to go on as though it had never stopped: independent of the strategy and
// of the number of ranks that made it.
struct Snapshot {
  Step step;
  SavedCursor cursor;
  int64_t seed = 0;
  int world_size = 1;                // when it was taken; for people
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
