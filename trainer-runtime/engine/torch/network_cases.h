#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/training/training_spec.h"

// Networks that between them have every layer, activation, padding and loss. For tests.
namespace lockstep::runtime {

struct NetworkCase {
  std::string name;
  std::vector<int64_t> input_shape;
  std::vector<Layer> layers;
  LossSpec loss;
  int64_t output_width;
};

inline constexpr LossSpec kSparseLogits{LossType::kSparseCategoricalCrossentropy, true};

// Linear, unless With() says otherwise.
Conv2DLayer Conv(int64_t filters, Extent kernel, Extent strides, Padding padding);
Conv2DLayer With(Activation activation, Conv2DLayer layer);

// Networks without images.
std::vector<NetworkCase> FlatCases();

std::vector<NetworkCase> Cases();

// Dropout before a convolution and behind it, and one that drops nothing.
NetworkCase DropoutCase();

TrainingSpec SpecOf(const NetworkCase& c);

}  // namespace lockstep::runtime
