#include "trainer-runtime/engine/torch/network_cases.h"

#include <algorithm>
#include <iterator>

namespace lockstep::runtime {
namespace {

DenseLayer Dense(int64_t units, Activation activation) {
  return {.units = units, .activation = activation};
}

std::vector<NetworkCase> ImageCases() {
  const DenseLayer out{.units = 4};
  using enum Activation;
  using enum Padding;
  return {
      {"tutorial, small",
       {12, 12, 1},
       {With(kRelu, Conv(8, {3, 3}, {1, 1}, kValid)),
        MaxPooling2DLayer{},
        FlattenLayer{},
        Dense(6, kRelu),
        out},
       kSparseLogits,
       4},
      {"two convolutions, strides, uneven kernels",
       {11, 9, 3},
       {With(kRelu, Conv(5, {3, 2}, {2, 1}, kValid)),
        With(kSigmoid, Conv(4, {2, 3}, {1, 2}, kValid)),
        FlattenLayer{},
        out},
       kSparseLogits,
       4},
      {"same padding, even kernel, stride",
       {7, 6, 2},
       {With(kRelu, Conv(3, {2, 4}, {1, 1}, kSame)),
        Conv(4, {3, 3}, {2, 2}, kSame),
        FlattenLayer{},
        out},
       kSparseLogits,
       4},
      {"pooling with overlap, same padding, no relu",
       {7, 7, 2},
       {Conv(3, {3, 3}, {1, 1}, kSame),
        MaxPooling2DLayer{.pool_size = {3, 3}, .strides = {2, 2}, .padding = kSame},
        FlattenLayer{},
        out},
       kSparseLogits,
       4},
      {"two convolutions with pooling, several chunks",
       {40, 40, 1},
       {With(kRelu, Conv(40, {3, 3}, {1, 1}, kSame)),
        MaxPooling2DLayer{},
        With(kRelu, Conv(6, {3, 3}, {1, 1}, kValid)),
        MaxPooling2DLayer{.pool_size = {3, 3}, .strides = {3, 3}},
        FlattenLayer{},
        out},
       kSparseLogits,
       4},
      {"sigmoid before pooling",
       {8, 8, 2},
       {With(kSigmoid, Conv(3, {3, 3}, {1, 1}, kValid)), MaxPooling2DLayer{}, FlattenLayer{}, out},
       kSparseLogits,
       4},
      {"pooling first",
       {8, 8, 2},
       {MaxPooling2DLayer{}, Conv(3, {3, 3}, {1, 1}, kValid), FlattenLayer{}, out},
       kSparseLogits,
       4},
      {"image out", {5, 5, 1}, {Conv(1, {3, 3}, {1, 1}, kValid)}, {}, 9},
  };
}

}  // namespace

Conv2DLayer Conv(int64_t filters, Extent kernel, Extent strides, Padding padding) {
  return {.filters = filters,
          .kernel_size = kernel,
          .strides = strides,
          .padding = padding,
          .activation = Activation::kLinear};
}

Conv2DLayer With(Activation activation, Conv2DLayer layer) {
  layer.activation = activation;
  return layer;
}

std::vector<NetworkCase> FlatCases() {
  const DenseLayer out{.units = 4};
  using enum Activation;
  return {
      {"one dense", {7}, {out}, kSparseLogits, 4},
      {"relu", {7}, {Dense(9, kRelu), out}, kSparseLogits, 4},
      {"sigmoid and softmax inside",
       {7},
       {Dense(9, kSigmoid), Dense(6, kSoftmax), out},
       kSparseLogits,
       4},
      {"softmax with sparse labels",
       {7},
       {Dense(4, kSoftmax)},
       {LossType::kSparseCategoricalCrossentropy, false},
       4},
      {"softmax with categories",
       {7},
       {Dense(4, kSoftmax)},
       {LossType::kCategoricalCrossentropy, false},
       4},
      {"sigmoid with bits", {7}, {Dense(3, kSigmoid)}, {LossType::kBinaryCrossentropy, false}, 3},
      {"logits with one bit", {7}, {Dense(1, kLinear)}, {LossType::kBinaryCrossentropy, true}, 1},
      {"sigmoid with squares", {7}, {Dense(3, kSigmoid)}, {LossType::kMeanSquaredError, false}, 3},
      {"softmax with squares", {7}, {Dense(3, kSoftmax)}, {LossType::kMeanSquaredError, false}, 3},
  };
}

std::vector<NetworkCase> Cases() {
  std::vector<NetworkCase> cases = FlatCases();
  std::ranges::move(ImageCases(), std::back_inserter(cases));
  return cases;
}

NetworkCase DropoutCase() {
  return {"dropout twice",
          {6, 6, 2},
          {DropoutLayer{.rate = 0.25},
           Conv(3, {3, 3}, {1, 1}, Padding::kValid),
           FlattenLayer{},
           DropoutLayer{.rate = 0.5},
           DropoutLayer{.rate = 0},
           DenseLayer{.units = 4}},
          kSparseLogits,
          4};
}

TrainingSpec SpecOf(const NetworkCase& c) {
  TrainingSpec spec;
  spec.seed = 17;
  spec.model.input_shape = c.input_shape;
  spec.model.layers = c.layers;
  spec.loss = c.loss;
  return spec;
}

}  // namespace lockstep::runtime
