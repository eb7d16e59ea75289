#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

enum class TensorKind { kParameter, kOptimizerSlot };

// A named tensor of float32 of the engine's. `data` is the host's image of it (see Engine) and
// stays valid as long as the engine lives or until LendState, so a checkpoint or a peer's state is
// read from and written to it in place.
struct TensorView {
  std::string name;  // canonical: "layer0/kernel", "layer0/kernel/adam_m"
  TensorKind kind = TensorKind::kParameter;
  std::vector<int64_t> shape;
  std::span<float> data;
};

// Samples in row-major order. Shapes: inputs [sample_count, ...model input shape, channels last],
// labels [sample_count, label_width]. Sparse losses read class numbers from a width of 1.
struct Batch {
  std::span<const float> inputs;
  std::span<const float> labels;
  int64_t sample_count = 0;  // may be 0: the gradient is then zero
};

// The gradients of elements [offset, offset + count) have the values that they will have when
// ComputeGradients returns, and may be read and changed from now on. On a device that is so for
// whoever waits there for `made`, a CUevent as it is recorded now; null: they are made.
using GradientsReady = std::function<void(int64_t offset, int64_t count, void* made)>;

// An update that the device takes right behind a step's gradients, or refuses, without the host: so
// that nobody waits between the two. It is refused where the host would not ask for it: in Float16
// if some gradient is not finite (the step is skipped then), and with `needs_finite` if the loss or
// some gradient is not.
struct GuardedUpdate {
  int64_t number = 1;                   // as in ApplyUpdate
  std::optional<double> norm_max = {};  // longer gradients, if finite, are shortened to it before
  bool needs_finite = false;
};

struct StepOptions {
  double gradient_scale = 1;  // 1 / samples of the global batch: sums over ranks become means
  uint64_t dropout_seed = 0;  // of the step; the same on all ranks
  int64_t first_sample = 0;   // where the batch starts within the global batch; keys the masks
  // Called from the last elements to the first, as backward makes them, on the computing thread or
  // on one of the numeric library's that it waits for; once for each element, in every
  // ComputeGradients that succeeds. Must not throw. May be empty.
  GradientsReady on_ready = {};
  // Where it is called: once for each of these elements, as soon as all from there to the end are
  // made, and for what is left then. Descending.
  std::span<const int64_t> ready_at = {};
  // Backward works on so many times the loss, so that small gradients are not lost in Float16, and
  // the factor is gone from Gradients(). A power of two, so that this costs no digit.
  double loss_scale = 1;
  // Of engines whose gradients are on a device, and only there; what is in the gradients afterwards
  // is unspecified.
  std::optional<GuardedUpdate> update = {};
  // Of the same engines: false where ComputeGradients returns as soon as the device has been given
  // the step, and its result is empty: TakeStep() has it. Such a step has no update.
  bool is_awaited = true;
  // Called once by the same engines, and by them alone, on the computing thread, when the device
  // has been given the step and nobody has waited for it: gives the next step's batch, which comes
  // to the device beside this step; null: there is none yet. Its memory may be used until that step
  // has been computed. Must not throw. May be empty.
  std::function<std::optional<Batch>()> next = {};
  // The batch is the one that `next` gave to the ComputeGradients before.
  bool is_prefetched = false;
};

// Sums over the batch, so that ranks can add them.
struct StepResult {
  double loss_sum = 0;
  int64_t correct_count = 0;
  // In Float16: 1 if some gradient is not a finite number, of a sum the engines of which that is
  // so.
  int64_t overflow_count = 0;
  // Of a step with an update, which is of one engine alone, or not awaited: the length of its
  // gradients, the root of the sum of their squares, not finite where one of them is not.
  double gradient_length = 0;
  // Of a step with an update: whether it was taken.
  bool is_updated = false;
};

enum class NumberType { kFloat32, kFloat64 };
enum class MemoryKind { kHost, kCuda };

// Memory that an engine computes in. Only where it is the host's may the host look there.
struct EngineBuffer {
  void* address = nullptr;
  uint64_t byte_count = 0;
  NumberType type = NumberType::kFloat32;
  MemoryKind memory = MemoryKind::kHost;
  int device = 0;  // by CUDA's numbers, in CUDA's memory only
};

// What a step that is not awaited has on its device beside the gradients.
struct DeviceSums {
  // Of loss_sum, correct_count and overflow_count, one after the other: made as gradients are, and
  // as they are they may be summed over replicas, in place.
  EngineBuffer numbers;
  // A CUevent that each step records behind these and its gradients; null: they are made.
  void* made = nullptr;
  // A CUstream that Measure() works in: whoever sums makes it wait for the sums before. Not that of
  // the gradients, which is free whatever becomes of the sums.
  void* after = nullptr;
};

// Of numbers in DeviceSums.
inline constexpr std::size_t kStepSumCount = 3;

// What an engine holds between calls.
enum class EnginePart {
  kState,     // parameters and optimizer slots: Tensors()
  kGradients  // Gradients()
};

// The numeric engine: one model with its optimizer on one device. Thread: one.
//
// What it computes with may lie on a GPU, where the host cannot look. So state and gradients have
// an image in the host's memory: Tensors() and Gradients() are this image and nothing else.
// BringToHost makes the image what the device has, BringToDevice the device what the image has;
// until then neither knows of the other's changes. An engine that computes in the host's memory
// computes in the image itself, and both calls do nothing.
class Engine {
 public:
  virtual ~Engine() = default;

  // Name, version and BLAS library, for logs: "LibTorch 1.13.1, libopenblas, 1 thread".
  virtual std::string Description() const = 0;

  // All parameters in layer order, then all optimizer slots. Same order on every rank.
  virtual std::vector<TensorView> Tensors() = 0;

  // The gradients of all parameters, one after the other in the order of Tensors().
  // Shapes: [sum of parameter sizes]. Valid as long as the engine lives or until LendGradients.
  virtual std::span<float> Gradients() = 0;

  // Where the engine has the gradients that Gradients() is the image of. As long valid.
  virtual EngineBuffer GradientBuffer() {
    const std::span<float> image = Gradients();
    return {.address = image.data(), .byte_count = image.size_bytes()};
  }

  // Where the sums of a step that is not awaited are; as long valid as the engine. Asked, as what
  // follows, of engines whose gradients are on a device.
  virtual DeviceSums Sums() { return {}; }

  // Has the device measure the gradients in `after` of Sums(): behind what that waits for, and what
  // the engine has given to its own stream. Does not wait. Errors: kUnavailable (they are in the
  // host's memory), kInternal (the device failed).
  virtual Status Measure() {
    return Error(ErrorCode::kUnavailable, "the gradients are in host memory");
  }

  // What the step that was not awaited has come to: what is in Sums() by now, and the length that
  // Measure() has found. Waits for that, however long. Errors: as Measure.
  virtual Result<StepResult> TakeStep() {
    return Error(ErrorCode::kUnavailable, "the gradients are in host memory");
  }

  // Multiplies the gradients there. Errors: as Measure.
  virtual Status ScaleGradients(float /*factor*/) {
    return Error(ErrorCode::kUnavailable, "the gradients are in host memory");
  }

  // The image of `part` is now what the device has. Errors: kInternal (the device failed).
  virtual Status BringToHost(EnginePart /*part*/) { return OkStatus(); }

  // All of `part` on the device is now what its image is. Errors: kInternal (the device failed).
  virtual Status BringToDevice(EnginePart /*part*/) { return OkStatus(); }

  // From now on Gradients() is `memory`, and nothing else: the engine's own is given back. What is
  // in it stays unspecified until ComputeGradients. It must outlive the engine, or the next memory
  // that is lent. Shapes: as Gradients(). Errors: kInvalidArgument (another size), kUnavailable (an
  // engine that cannot); Gradients() is then what it was.
  virtual Status LendGradients(std::span<float> memory) = 0;

  // From now on the tensors of Tensors() lie in these memories, one after the other and without
  // gaps: the parameters in `parameters`, the optimizer's slots in `slots`. Their values come
  // along, and the engine's own memory is given back. Both must outlive the engine, or the next
  // memories that are lent. An engine that takes them takes memory for its gradients, too. Shapes:
  // [sum of parameter sizes], [sum of slot sizes]. Errors: kInvalidArgument (other sizes),
  // kUnavailable (an engine that cannot, as those do whose state is on a device); the tensors are
  // then where they were.
  virtual Status LendState(std::span<float> /*parameters*/, std::span<float> /*slots*/) {
    return Error(ErrorCode::kUnavailable, "this engine keeps its state in its own memory");
  }

  // Makes the gradients: gradient_scale x d(sum of losses)/d(parameter), on the device, and takes
  // the update that the options name. Errors: kInvalidArgument (shapes), kUnavailable (what only
  // engines on a device do), kInternal (the numeric library threw; its text is in the message).
  virtual Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) = 0;

  // Updates parameters and slots from the gradients, on the device. `update_number` counts from 1
  // (Adam's bias correction), so the engine itself keeps no counter.
  virtual Status ApplyUpdate(int64_t update_number) = 0;

  // Losses and hits without changing anything.
  virtual Result<StepResult> Evaluate(const Batch& batch) = 0;

  // What people should hear of how it computes, a sentence a call, each once; empty: no more.
  virtual std::optional<std::string> TakeNotice() { return std::nullopt; }
};

}  // namespace lockstep::runtime
