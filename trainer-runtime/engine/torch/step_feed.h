#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/host_floats.h"

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
// Batches of equal size lie at equal addresses until one is larger than all before. Thread: one.
class StepFeed {
 public:
  // Source: what CUDA's own allocator aligns to; more than any operation asks for.
  static constexpr std::size_t kAlignment = 256;

  StepFeed(at::Device place, HostAllocator allocate);

  // Puts the copy into the device's queue and returns. Precondition: the device is done with the
  // step before. Shapes: `sample_shape` as the batch's samples.
  StepTensors Load(const Batch& batch,
                   const std::vector<int64_t>& sample_shape,
                   std::span<const int64_t> words);

  // How often the memory on the device has become another.
  int64_t move_count() const { return move_count_; }

 private:
  void Reserve(std::size_t byte_count);

  at::Device place_;
  HostAllocator allocate_;
  std::size_t capacity_ = 0;  // in bytes, of both
  HostFloats staging_;
  at::Tensor memory_;  // bytes, on the device
  int64_t move_count_ = 0;
};

}  // namespace lockstep::runtime
