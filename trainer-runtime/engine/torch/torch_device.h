#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <ATen/ATen.h>

#include "common/base/result.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// All trainable numbers of a model on one device. Shapes: parameters and gradients [n], slots
// [slot count x n].
struct DeviceState {
  at::Tensor parameters;
  at::Tensor gradients;
  at::Tensor slots;
};

// What an engine needs of the device that its tensors are on, besides LibTorch's operations.
// Errors: throws what LibTorch throws. Thread: one.
class TorchDevice {
 public:
  virtual ~TorchDevice() = default;

  virtual at::Device place() const = 0;

  // Whether the engine computes in the very memory that the host looks at.
  virtual bool IsTheHostsMemory() const = 0;

  // What Engine::GradientBuffer() says of its memory.
  virtual MemoryKind memory() const = 0;

  // The CUstream that operations on its tensors are put into; null: none, or CUDA's default.
  virtual void* stream() const = 0;

  // For logs: "CPU", "CUDA device 0, NVIDIA H100".
  virtual std::string Describe() const = 0;

  // `values` as a tensor there, without waiting for it. They must last until all that was asked of
  // the device is done. Shapes: [product of shape].
  virtual at::Tensor Upload(std::span<const float> values, at::IntArrayRef shape) = 0;

  // As ApplyOptimizer, to the same bits; at once, or when the device comes to it.
  // Errors: kInternal (the device refuses).
  virtual Status Update(const OptimizerSpec& optimizer,
                        int64_t update_number,
                        const DeviceState& state) = 0;
};

// How an engine on the CPU has its memory.
enum class HostMemory {
  kShared,  // with the host
  kApart    // as though it were a GPU's, so that tests see that nothing depends on sharing it
};

std::unique_ptr<TorchDevice> MakeHostDevice(HostMemory memory);

}  // namespace lockstep::runtime
