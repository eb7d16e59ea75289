#include "trainer-runtime/data/batch_loader.h"

#include <cstddef>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "trainer-runtime/data/permutation.h"

namespace lockstep::runtime {

BatchLoader::BatchLoader(const Dataset* dataset, BatchLoaderOptions options)
    : dataset_(dataset), options_(options) {
  LOCKSTEP_CHECK(options.plan.sample_count == dataset->sample_count(),
                 std::to_string(options.plan.sample_count) + " planned, " +
                     std::to_string(dataset->sample_count()) + " there");
}

LoadedBatch BatchLoader::Load(const DataCursor& cursor, const ReplicaRange& replicas) {
  std::optional<Ahead> ahead = std::exchange(ahead_, std::nullopt);
  if (ahead.has_value() && ahead->cursor == cursor && ahead->replicas == replicas) {
    std::swap(own_, other_);  // vectors keep their memory
    ahead->batch.was_loaded_ahead = true;
    return std::move(ahead->batch);
  }
  UseEpoch(cursor.data_epoch);
  return LoadTo(&own_, cursor, replicas);
}

std::optional<LoadedBatch> BatchLoader::LoadAhead(const DataCursor& cursor,
                                                  const ReplicaRange& replicas) {
  if (cursor.data_epoch != permutation_epoch_) {
    return std::nullopt;
  }
  ahead_ = Ahead{cursor, replicas, LoadTo(&other_, cursor, replicas)};
  return ahead_->batch;
}

LoadedBatch BatchLoader::LoadTo(Place* place,
                                const DataCursor& cursor,
                                const ReplicaRange& replicas) {
  const PositionRange positions = BatchAt(options_.plan, cursor.position);
  const int last = replicas.first + replicas.count - 1;
  const PositionRange slice = {SliceOf(positions, replicas.first, replicas.total).begin,
                               SliceOf(positions, last, replicas.total).end};
  const auto count = static_cast<std::size_t>(slice.size());

  LoadedBatch batch;
  batch.ids =
      std::span<const int64_t>(permutation_).subspan(static_cast<std::size_t>(slice.begin), count);
  batch.global_sample_count = positions.size();
  batch.slice_begin = slice.begin - positions.begin;
  const auto input_width = static_cast<std::size_t>(dataset_->input_width());
  const auto label_width = static_cast<std::size_t>(dataset_->label_width());
  place->inputs.resize(count * input_width);
  place->labels.resize(count * label_width);
  dataset_->Gather(batch.ids, place->inputs, place->labels);
  for (int replica = replicas.first; replica <= last; ++replica) {
    const PositionRange own = SliceOf(positions, replica, replicas.total);
    const auto begin = static_cast<std::size_t>(own.begin - slice.begin);
    const auto size = static_cast<std::size_t>(own.size());
    batch.shares.push_back(
        {std::span<const float>(place->inputs).subspan(begin * input_width, size * input_width),
         std::span<const float>(place->labels).subspan(begin * label_width, size * label_width),
         own.size(),
         own.begin - positions.begin});
  }
  return batch;
}

std::span<const int64_t> BatchLoader::ExpectedIds(int64_t data_epoch, int64_t position) {
  LOCKSTEP_CHECK(position >= 0 && position <= options_.plan.sample_count,
                 "position " + std::to_string(position));
  UseEpoch(data_epoch);
  return std::span<const int64_t>(permutation_).first(static_cast<std::size_t>(position));
}

void BatchLoader::UseEpoch(int64_t data_epoch) {
  if (data_epoch != permutation_epoch_) {
    ahead_.reset();  // its ids are of the order that goes
    permutation_ =
        EpochPermutation(options_.seed, data_epoch, options_.plan.sample_count, options_.shuffle);
    permutation_epoch_ = data_epoch;
  }
}

}  // namespace lockstep::runtime
