#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "common/base/result.h"
#include "common/contract/training_spec.h"
#include "trainer-runtime/engine/parameter_store.h"

namespace lockstep::runtime {

struct ForwardOptions {
  bool is_training = false;  // keep what Backward needs, and drop out
  uint64_t dropout_seed = 0;
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

struct TorchNetwork {
  std::vector<std::unique_ptr<TorchLayer>> layers;
  std::unique_ptr<ParameterStore> store;  // layers hold views into it
  LossSpec loss;                          // with the last activation absorbed where it can be
  int64_t input_size = 1;                 // of one sample
  std::vector<int64_t> input_shape;
  int64_t output_width = 1;
};

// The network of a training section with fresh parameters: Glorot uniform kernels from the seed,
// zero biases. Errors: as InferShapes.
Result<TorchNetwork> BuildTorchNetwork(const TrainingSpec& spec);

}  // namespace lockstep::runtime
