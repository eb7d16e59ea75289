#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/parameter_store.h"
#include "trainer-runtime/engine/torch/torch_layers.h"

namespace lockstep::runtime {

struct TorchNetwork {
  std::vector<std::unique_ptr<TorchLayer>> layers;
  std::unique_ptr<ParameterStore> store;  // layers hold views into it
  // [parameters] of the layers, in the store's order: they follow where the store's numbers go.
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  // [layers], where each one's gradients begin in the store's buffer, or would if it had any
  std::vector<int64_t> gradient_offsets;
  LossSpec loss;           // with the last activation absorbed where it can be
  int64_t input_size = 1;  // of one sample
  std::vector<int64_t> input_shape;
  int64_t output_width = 1;
};

// The network of a training section with fresh parameters: Glorot uniform kernels from the seed,
// zero biases. Errors: as ShapesOf.
Result<TorchNetwork> BuildTorchNetwork(const TrainingSpec& spec);

// As Engine::LendGradients() promises. The layers write to the lent memory from now on.
Status LendGradients(TorchNetwork* network, std::span<float> memory);

// As Engine::LendState() promises. The layers read the lent memory from now on.
Status LendState(TorchNetwork* network, std::span<float> parameters, std::span<float> slots);

}  // namespace lockstep::runtime
