#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <ATen/ATen.h>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/cuda/update_pass.h"
#include "trainer-runtime/engine/engine.h"
#include "trainer-runtime/engine/host_floats.h"

namespace lockstep::runtime {

// All trainable numbers of a model on one device. Shapes: parameters and gradients [n], slots
// [slot count x n].
struct DeviceState {
  at::Tensor parameters;
  at::Tensor gradients;
  at::Tensor slots;
};

// The addresses of it that an update works on.
UpdateBuffers BuffersOf(const DeviceState& state);

// The records of guarded_step.h on the device, as int64.
struct DeviceRecords {
  at::Tensor step;     // begins with a GuardedStep
  at::Tensor numbers;  // a StepNumbers
};

// Makes memory of the host's that the device reaches by itself, so that copies to and from it need
// neither the host's time nor a second copy. Errors: kResourceExhausted (it is refused: the
// sentence says why). Thread: one.
class HostPinning {
 public:
  virtual ~HostPinning() = default;

  virtual Result<HostFloats> Allocate(std::size_t count) = 0;

  // Memory that is there already, for as long as what is returned lives.
  virtual Result<std::shared_ptr<void>> Pin(std::span<float> memory) = 0;
};

// Work that a device does again at one word. Errors: kInternal (the device refuses).
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  virtual Status Launch() = 0;
};

// Takes down what `work` asks of the device, which does none of it: the first Launch() does. The
// memory that `work` reads and writes is the same in each. Errors: kInternal (the device cannot
// take it down, or work failed; the device is as it was before).
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  virtual Result<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work) = 0;
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

  // For logs: "CPU", "CUDA device 0, NVIDIA H100".
  virtual std::string Describe() const = 0;

  // While it lives, this thread's operations on the device's tensors go into its stream. All of an
  // engine's do.
  virtual std::shared_ptr<void> Enter() = 0;

  // The same of a second stream, for what is done behind sums that others make: what the first one
  // has been given so far comes before, and nothing that the first one is given later waits for it.
  virtual void* stream_after() const = 0;
  virtual std::shared_ptr<void> EnterAfter() = 0;

  // The CUevent of that number, which is made here; null: nothing of this device's is ever late.
  virtual void* mark(std::size_t number) = 0;

  // Records it behind what the first stream has been given so far. Within what a recorder takes
  // down it becomes a part of that: each launch records it, so that others need not be taken down
  // to wait for it.
  virtual void Mark(std::size_t number) = 0;

  // Whether a mark within what a recorder took down counts as made anew from DeviceGraph::Launch()
  // on, so that whoever waits for it waits for that launch. Where it counts only once the device
  // comes there, a wait may find that of the launch before. Not to be asked within Record().
  virtual bool MarksAtLaunch() { return true; }

  // Puts a copy from the host's memory into a third stream: behind what the first one had been
  // given at Mark(`behind`), and beside what it was given since. Shapes: the same of both.
  virtual void CopyBeside(const at::Tensor& to, const at::Tensor& from, std::size_t behind);

  // What the first stream is given from now on waits for these copies.
  virtual void AwaitCopies() {}

  // Returns when these copies are done: what they were from is the host's to change.
  virtual void FinishCopies() {}

  // As ApplyOptimizer, to the same bits; at once, or when the device comes to it.
  // Errors: kInternal (the device refuses).
  virtual Status Update(const OptimizerSpec& optimizer,
                        int64_t update_number,
                        const DeviceState& state) = 0;

  // Gives the verdict on a step from its records, and updates as Update does unless it is refused.
  // Nothing of it is known to the host. Errors: kInternal (the device refuses).
  virtual Status UpdateGuarded(const OptimizerSpec& optimizer,
                               const DeviceRecords& records,
                               const DeviceState& state) = 0;

  // Waits until the stream that was entered has made `numbers`, and brings them: the only wait of a
  // step. Shapes: as many bytes in both.
  virtual void Fetch(const at::Tensor& numbers, std::span<std::byte> bytes);

  // Null: the host's memory is within its reach anyway.
  virtual HostPinning* pinning() { return nullptr; }

  // Null: it takes nothing down.
  virtual GraphRecorder* recorder() { return nullptr; }
};

// How an engine on the CPU has its memory.
enum class HostMemory {
  kShared,  // with the host
  kApart    // as though it were a GPU's, so that tests see that nothing depends on sharing it
};

std::unique_ptr<TorchDevice> MakeHostDevice(HostMemory memory);

}  // namespace lockstep::runtime
