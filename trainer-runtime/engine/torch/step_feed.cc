#include "trainer-runtime/engine/torch/step_feed.h"

#include <cstring>
#include <utility>

namespace lockstep::runtime {
namespace {

std::size_t AlignedUp(std::size_t byte_count) {
  return (byte_count + StepFeed::kAlignment - 1) / StepFeed::kAlignment * StepFeed::kAlignment;
}

template <typename Values>
void Put(std::byte* to, const Values& values) {
  if (!values.empty()) {
    std::memcpy(to, values.data(), values.size_bytes());
  }
}

// The host's bytes as a tensor.
at::Tensor Over(std::byte* bytes, std::size_t byte_count) {
  return at::from_blob(bytes, {static_cast<int64_t>(byte_count)}, at::kByte);
}

at::Tensor PartOf(const at::Tensor& memory, std::size_t begin, std::size_t byte_count) {
  return memory.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(byte_count));
}

}  // namespace

StepFeed::StepFeed(TorchDevice* device, HostAllocator allocate)
    : device_(device), allocate_(std::move(allocate)) {}

StepFeed::Layout StepFeed::LayoutOf(const Batch& batch, std::size_t words_byte_count) {
  Layout layout;
  layout.labels = AlignedUp(words_byte_count);
  layout.inputs = layout.labels + AlignedUp(batch.labels.size_bytes());
  layout.end = layout.inputs + AlignedUp(batch.inputs.size_bytes());
  return layout;
}

StepTensors StepFeed::Load(const Batch& batch,
                           const std::vector<int64_t>& sample_shape,
                           std::span<const int64_t> words) {
  const Layout layout = LayoutOf(batch, words.size_bytes());
  move_count_ += Reserve(layout.end, &own_) ? 1 : 0;
  Put(own_.bytes(), words);
  Put(own_.bytes() + layout.labels, batch.labels);
  Put(own_.bytes() + layout.inputs, batch.inputs);
  const std::size_t byte_count = layout.inputs + batch.inputs.size_bytes();
  PartOf(own_.memory, 0, byte_count).copy_(Over(own_.bytes(), byte_count), /*non_blocking=*/true);
  return Views(batch, sample_shape, words.size_bytes());
}

void StepFeed::BringAhead(const Batch& batch, std::size_t taken) {
  const Layout layout = LayoutOf(batch, 0);
  device_->FinishCopies();
  if (Reserve(layout.end, &ahead_)) {
    device_->Mark(taken);  // what the first stream works on now may have had this memory before
  }
  Put(ahead_.bytes() + layout.labels, batch.labels);
  Put(ahead_.bytes() + layout.inputs, batch.inputs);
  ahead_byte_count_ = layout.inputs + batch.inputs.size_bytes();
  ahead_sample_count_ = batch.sample_count;
  device_->CopyBeside(
      PartOf(ahead_.memory, 0, ahead_byte_count_), Over(ahead_.bytes(), ahead_byte_count_), taken);
}

bool StepFeed::HasAhead(const Batch& batch) const {
  const std::size_t byte_count = LayoutOf(batch, 0).inputs + batch.inputs.size_bytes();
  return ahead_byte_count_ > 0 && ahead_byte_count_ == byte_count &&
         ahead_sample_count_ == batch.sample_count;
}

// The words come by the usual way, and the rest from where it lies: the addresses of a step stay.
StepTensors StepFeed::LoadAhead(const Batch& batch,
                                const std::vector<int64_t>& sample_shape,
                                std::span<const int64_t> words) {
  const Layout layout = LayoutOf(batch, words.size_bytes());
  move_count_ += Reserve(layout.end, &own_) ? 1 : 0;
  Put(own_.bytes(), words);
  PartOf(own_.memory, 0, words.size_bytes())
      .copy_(Over(own_.bytes(), words.size_bytes()), /*non_blocking=*/true);
  device_->AwaitCopies();
  PartOf(own_.memory, layout.labels, ahead_byte_count_)
      .copy_(PartOf(ahead_.memory, 0, ahead_byte_count_));
  ahead_byte_count_ = 0;
  return Views(batch, sample_shape, words.size_bytes());
}

StepTensors StepFeed::Views(const Batch& batch,
                            const std::vector<int64_t>& sample_shape,
                            std::size_t words_byte_count) const {
  const Layout layout = LayoutOf(batch, words_byte_count);
  const auto view = [this](std::size_t begin, std::size_t size, at::ScalarType type) {
    return PartOf(own_.memory, begin, size).view(type);
  };
  std::vector<int64_t> shape{batch.sample_count};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  const int64_t label_count = static_cast<int64_t>(batch.labels.size());
  const int64_t label_width = batch.sample_count > 0 ? label_count / batch.sample_count : 0;
  return {view(0, words_byte_count, at::kLong),
          view(layout.labels, batch.labels.size_bytes(), at::kFloat)
              .view({batch.sample_count, label_width}),
          view(layout.inputs, batch.inputs.size_bytes(), at::kFloat).view(shape)};
}

// Whether the memory has become another.
bool StepFeed::Reserve(std::size_t byte_count, Place* place) {
  if (byte_count <= place->capacity) {
    return false;
  }
  place->staging = allocate_(byte_count / sizeof(float));
  place->memory = at::empty({static_cast<int64_t>(byte_count)},
                            at::TensorOptions().dtype(at::kByte).device(device_->place()));
  place->capacity = byte_count;
  return true;
}

}  // namespace lockstep::runtime
