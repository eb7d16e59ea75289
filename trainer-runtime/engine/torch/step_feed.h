#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/host_floats.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// What a step is made of, on its device.
struct StepTensors {
  at::Tensor words;   // int64 [as many as were given]
  at::Tensor labels;  // [n, label width]
  at::Tensor inputs;  // [n, ...]
};

// Brings each step's words, labels and inputs to the device by one copy, out of memory of the
// host's that stays, into memory of the device's that stays:
//
//   | words | labels | inputs |      each from a multiple of kAlignment bytes
//
// Batches of equal size lie at equal addresses until one is larger than all before. A batch may
// come ahead of its step, beside the one before: to a place of its own on the device, from where
// the step takes it. Thread: one. The device outlives it.
class StepFeed {
 public:
  // Source: what CUDA's own allocator aligns to; more than any operation asks for.
  static constexpr std::size_t kAlignment = 256;

  StepFeed(TorchDevice* device, HostAllocator allocate);

  // Puts the copy into the device's queue and returns. Precondition: the device is done with the
  // step before. Shapes: `sample_shape` as the batch's samples.
  StepTensors Load(const Batch& batch,
                   const std::vector<int64_t>& sample_shape,
                   std::span<const int64_t> words);

  // Begins to bring the batch of the next step over, behind the device's mark `taken`, which is
  // made behind every Load. Waits for no more than the copy of the batch that came ahead before.
  void BringAhead(const Batch& batch, std::size_t taken);

  // Whether the newest batch that came ahead is of this size, and was not taken yet.
  bool HasAhead(const Batch& batch) const;

  // As Load, of the batch that came ahead. Precondition: HasAhead, of that batch.
  StepTensors LoadAhead(const Batch& batch,
                        const std::vector<int64_t>& sample_shape,
                        std::span<const int64_t> words);

  // How often the memory on the device has become another.
  int64_t move_count() const { return move_count_; }

 private:
  // A place on both sides.
  struct Place {
    std::size_t capacity = 0;  // in bytes, of both
    HostFloats staging;
    at::Tensor memory;  // bytes, on the device

    std::byte* bytes() { return reinterpret_cast<std::byte*>(staging.get()); }
  };

  // Where labels and inputs begin, in bytes.
  struct Layout {
    std::size_t labels = 0;
    std::size_t inputs = 0;
    std::size_t end = 0;
  };

  static Layout LayoutOf(const Batch& batch, std::size_t words_byte_count);
  bool Reserve(std::size_t byte_count, Place* place);
  StepTensors Views(const Batch& batch,
                    const std::vector<int64_t>& sample_shape,
                    std::size_t words_byte_count) const;

  TorchDevice* device_;
  HostAllocator allocate_;
  Place own_;
  Place ahead_;                       // without words
  std::size_t ahead_byte_count_ = 0;  // of the batch there; 0: none
  int64_t ahead_sample_count_ = 0;
  int64_t move_count_ = 0;
};

}  // namespace lockstep::runtime
