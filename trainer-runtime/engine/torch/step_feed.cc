#include "trainer-runtime/engine/torch/step_feed.h"

#include <cstring>
#include <utility>

namespace lockstep::runtime {
namespace {

std::size_t AlignedUp(std::size_t byte_count) {
  return (byte_count + StepFeed::kAlignment - 1) / StepFeed::kAlignment * StepFeed::kAlignment;
}

}  // namespace

StepFeed::StepFeed(at::Device place, HostAllocator allocate)
    : place_(place), allocate_(std::move(allocate)) {}

StepTensors StepFeed::Load(const Batch& batch,
                           const std::vector<int64_t>& sample_shape,
                           std::span<const int64_t> words) {
  const std::size_t labels_begin = AlignedUp(words.size_bytes());
  const std::size_t inputs_begin = labels_begin + AlignedUp(batch.labels.size_bytes());
  const std::size_t end = inputs_begin + AlignedUp(batch.inputs.size_bytes());
  Reserve(end);
  auto* const bytes = reinterpret_cast<std::byte*>(staging_.get());
  const auto put = [bytes](std::size_t begin, const auto& values) {
    if (!values.empty()) {
      std::memcpy(bytes + begin, values.data(), values.size_bytes());
    }
  };
  put(0, words);
  put(labels_begin, batch.labels);
  put(inputs_begin, batch.inputs);
  const auto byte_count = static_cast<int64_t>(inputs_begin + batch.inputs.size_bytes());
  memory_.narrow(0, 0, byte_count)
      .copy_(at::from_blob(bytes, {byte_count}, at::kByte), /*non_blocking=*/true);

  const auto view = [this](std::size_t begin, std::size_t size, at::ScalarType type) {
    return memory_.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(size)).view(type);
  };
  std::vector<int64_t> shape{batch.sample_count};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  const int64_t label_count = static_cast<int64_t>(batch.labels.size());
  const int64_t label_width = batch.sample_count > 0 ? label_count / batch.sample_count : 0;
  return {view(0, words.size_bytes(), at::kLong),
          view(labels_begin, batch.labels.size_bytes(), at::kFloat)
              .view({batch.sample_count, label_width}),
          view(inputs_begin, batch.inputs.size_bytes(), at::kFloat).view(shape)};
}

void StepFeed::Reserve(std::size_t byte_count) {
  if (byte_count <= capacity_) {
    return;
  }
  staging_ = allocate_(byte_count / sizeof(float));
  memory_ = at::empty({static_cast<int64_t>(byte_count)},
                      at::TensorOptions().dtype(at::kByte).device(place_));
  capacity_ = byte_count;
  ++move_count_;
}

}  // namespace lockstep::runtime
