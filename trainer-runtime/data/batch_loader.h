#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer-runtime/data/cursor.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/data/shard_plan.h"

namespace lockstep::runtime {

// One replica's share of one global batch. Shapes: inputs [sample_count, ...input shape],
// labels [sample_count, label width], both row-major.
struct LoadedShare {
  std::span<const float> inputs;
  std::span<const float> labels;
  int64_t sample_count = 0;
  int64_t slice_begin = 0;  // where the share starts within the global batch
};

// What one rank reads of one global batch: the shares of its replicas, which lie side by side.
// Valid until the loader's next call but LoadAhead, and whatever was loaded ahead until the next
// but that Load.
struct LoadedBatch {
  std::vector<LoadedShare> shares;
  std::span<const int64_t> ids;     // the samples of all shares
  int64_t global_sample_count = 0;  // samples of the whole batch, all ranks together
  int64_t slice_begin = 0;          // where `ids` starts within the global batch
  bool was_loaded_ahead = false;    // it is what LoadAhead gave, in the same memory
};

// Some of a job's replicas: `count` from `first` on, of `total`.
struct ReplicaRange {
  int first = 0;
  int count = 1;  // at least 1
  int total = 1;

  friend bool operator==(const ReplicaRange&, const ReplicaRange&) = default;
};

struct BatchLoaderOptions {
  BatchPlan plan;
  int64_t seed = 0;
  bool shuffle = true;
};

// Gathers batches into buffers that are reused, on the caller's thread: a row of digits takes less
// than a microsecond, so a second thread would cost more in hand-over than it hides.
// Thread: one. `dataset` outlives the loader.
class BatchLoader {
 public:
  // Precondition (checked): plan.sample_count == dataset->sample_count().
  BatchLoader(const Dataset* dataset, BatchLoaderOptions options);

  // The shares of `replicas` of the batch that `cursor` points at. Who they are comes with each
  // call: it may change at any epoch. Preconditions: those of BatchAt and SliceOf.
  LoadedBatch Load(const DataCursor& cursor, const ReplicaRange& replicas);

  // Loads what the next Load() is expected to ask for, beside what the last one gave, which stays
  // as it is: for whoever has the time now. Null where it is of another data epoch than that, whose
  // order is not made yet. A Load() of something else forgets it.
  std::optional<LoadedBatch> LoadAhead(const DataCursor& cursor, const ReplicaRange& replicas);

  // The ids that data epoch `data_epoch` uses up to `position`, in order: what a SampleLedger is
  // closed with. Valid until the next call. Precondition (checked): position in [0, sample_count].
  std::span<const int64_t> ExpectedIds(int64_t data_epoch, int64_t position);

  const BatchPlan& plan() const { return options_.plan; }

 private:
  // The numbers of a batch.
  struct Place {
    std::vector<float> inputs;
    std::vector<float> labels;
  };

  struct Ahead {
    DataCursor cursor;
    ReplicaRange replicas;
    LoadedBatch batch;
  };

  void UseEpoch(int64_t data_epoch);
  LoadedBatch LoadTo(Place* place, const DataCursor& cursor, const ReplicaRange& replicas);

  const Dataset* dataset_;
  BatchLoaderOptions options_;
  int64_t permutation_epoch_ = -1;  // the data epoch of permutation_; -1 before the first
  std::vector<int64_t> permutation_;
  Place own_;
  Place other_;  // empty unless something is loaded ahead
  std::optional<Ahead> ahead_;
};

}  // namespace lockstep::runtime
