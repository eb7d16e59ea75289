#pragma once

#include <cstdint>
#include <memory>

#include <ATen/ATen.h>

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/max_pool.h"
#include "trainer-runtime/engine/window.h"

namespace lockstep::runtime {

struct ForwardOptions {
  bool is_training = false;  // keep what Backward needs, and drop out
  uint64_t dropout_seed = 0;
  int64_t first_sample = 0;  // of the batch, within the global batch
};

// One step of a network that runs straight through. Each knows its own derivative: a straight
// network needs no recorded graph, gradients go directly into the flat buffer, and the first layer
// does not work out the gradient of the images.
//
// Shapes: values are [n, ...], row-major, channels last. A layer may keep its input until Backward,
// and may write its output into memory that it uses again in the next call.
// Errors: throws what LibTorch throws.
class TorchLayer {
 public:
  virtual ~TorchLayer() = default;

  virtual at::Tensor Forward(const at::Tensor& input, const ForwardOptions& options) = 0;

  // Overwrites the gradients of the layer's parameters and returns d(loss)/d(input), or an
  // undefined tensor when that is not wanted. Follows a Forward with is_training.
  virtual at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) = 0;

  virtual bool has_parameters() const { return false; }
};

// One parameter and where its gradient goes, both over the flat buffers, which outlive the layer.
struct TorchParameter {
  at::Tensor value;
  at::Tensor gradient;
};

// In `precision` are the products of these, and what goes into them (low_precision.h); all else is
// float32.

// Shapes: kernel [in, out], bias [out]; reads [n, in].
std::unique_ptr<TorchLayer> MakeDense(TorchParameter kernel,
                                      TorchParameter bias,
                                      Precision precision);

// Shapes: kernel [height, width, in, out], bias [out]; reads [n, in_height, in_width, in].
std::unique_ptr<TorchLayer> MakeConv2D(const Window& window,
                                       TorchParameter kernel,
                                       TorchParameter bias,
                                       Precision precision);

// MakeConv2D and MakeMaxPool in one, faster than one after the other.
std::unique_ptr<TorchLayer> MakeConvPool(const Window& window,
                                         TorchParameter kernel,
                                         TorchParameter bias,
                                         Precision precision,
                                         const MaxPool& pool);

std::unique_ptr<TorchLayer> MakeMaxPool(const MaxPool& pool);

std::unique_ptr<TorchLayer> MakeFlatten();

// `layer_index` gives each dropout layer of a model a stream of its own.
std::unique_ptr<TorchLayer> MakeDropout(double rate, std::size_t layer_index);

// Works in place on the output of the layer before it.
std::unique_ptr<TorchLayer> MakeActivation(Activation activation);

}  // namespace lockstep::runtime
