#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "common/contract/training/training_spec.h"

namespace lockstep::runtime {

struct PassOptions {
  bool is_training = false;  // drop out
  at::Tensor dropout_bases;  // int64 [dropouts], DropoutBases on the device; of training only
};

// A layer that drops out.
struct DropoutStream {
  uint64_t layer_index = 0;
  int64_t elements_per_sample = 0;
};

// A network out of LibTorch's own operations, which its autograd derives, on whatever device the
// parameters are. Values are [n, ...], row-major, channels last, as those of TorchLayer.
struct AutogradNetwork {
  using Layer = std::function<at::Tensor(const at::Tensor& values, const PassOptions& options)>;

  std::vector<Layer> layers;
  std::vector<DropoutStream> dropouts;  // those whose rate is not 0, in layer order
  LossSpec loss;                        // with the last activation absorbed where it can be

  at::Tensor Forward(at::Tensor values, const PassOptions& options) const;
};

// `parameters` as PlanParameters has them; the network keeps them. `shapes` are ShapesOf(model).
AutogradNetwork BuildAutogradNetwork(const TrainingSpec& spec,
                                     const std::vector<LayerShape>& shapes,
                                     const std::vector<at::Tensor>& parameters);

// What tells one step's masks from another's: a number for each layer that drops out, of the step's
// seed and the place of the batch's first sample within the global batch.
std::vector<int64_t> DropoutBases(const std::vector<DropoutStream>& dropouts,
                                  uint64_t dropout_seed,
                                  int64_t first_sample);

// FillDropoutFactors (dropout.h) on a device: the same bits. Shapes: `base` int64 [], of a layer,
// on the device; the factors as `like`, whose device it is.
at::Tensor DropoutFactors(const at::Tensor& base, double rate, const at::Tensor& like);

}  // namespace lockstep::runtime
