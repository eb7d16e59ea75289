#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "common/contract/training_spec.h"

namespace lockstep::runtime {

struct PassOptions {
  bool is_training = false;  // drop out
  uint64_t dropout_seed = 0;
  int64_t first_sample = 0;  // of the batch, within the global batch
};

// A network out of LibTorch's own operations, which its autograd derives, on whatever device the
// parameters are. Values are [n, ...], row-major, channels last, as those of TorchLayer.
struct AutogradNetwork {
  using Layer = std::function<at::Tensor(const at::Tensor& values, const PassOptions& options)>;

  std::vector<Layer> layers;
  LossSpec loss;  // with the last activation absorbed where it can be

  at::Tensor Forward(at::Tensor values, const PassOptions& options) const;
};

// `parameters` as PlanParameters has them; the network keeps them. `shapes` are ShapesOf(model).
AutogradNetwork BuildAutogradNetwork(const TrainingSpec& spec,
                                     const std::vector<LayerShape>& shapes,
                                     const std::vector<at::Tensor>& parameters);

// FillDropoutFactors (dropout.h) on a device: the same bits. Shapes: as `like`, whose device it is.
at::Tensor DropoutFactors(uint64_t seed, double rate, uint64_t first_index, const at::Tensor& like);

}  // namespace lockstep::runtime
