#include "trainer-runtime/engine/reference_engine.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/engine/engine_checks.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainingSpec TwoLayers(Activation hidden) {
  TrainingSpec spec;
  spec.seed = 5;
  spec.model.input_shape = {3, 2, 1};
  spec.model.layers = {FlattenLayer{},
                       DenseLayer{.units = 5, .activation = hidden},
                       DenseLayer{.units = 3, .activation = Activation::kSoftmax}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, false};
  spec.optimizer = AdamOptimizer{.learning_rate = 0.05};
  return spec;
}

TEST(ReferenceEngine, TensorsAreNamedAndShapedAsInKeras) {
  const auto engine = MakeReferenceEngine(TwoLayers(Activation::kRelu)).value();
  std::vector<std::string> names;
  std::size_t parameter_count = 0;
  for (const TensorView& tensor : engine->Tensors()) {
    names.push_back(tensor.name);
    parameter_count += tensor.kind == TensorKind::kParameter ? tensor.data.size() : 0;
  }
  EXPECT_THAT(names,
              ElementsAre("layer1/kernel",
                          "layer1/bias",
                          "layer2/kernel",
                          "layer2/bias",
                          "layer1/kernel/adam_m",
                          "layer1/bias/adam_m",
                          "layer2/kernel/adam_m",
                          "layer2/bias/adam_m",
                          "layer1/kernel/adam_v",
                          "layer1/bias/adam_v",
                          "layer2/kernel/adam_v",
                          "layer2/bias/adam_v"));
  EXPECT_THAT(engine->Tensors()[0].shape, ElementsAre(6, 5));
  EXPECT_EQ(parameter_count, 6u * 5 + 5 + 5 * 3 + 3);
  EXPECT_EQ(engine->Gradients().size(), parameter_count);
}

TEST(ReferenceEngine, GradientsAgreeWithDifferences) {
  for (const Activation hidden : {Activation::kLinear, Activation::kRelu, Activation::kSigmoid}) {
    const TrainingSpec spec = TwoLayers(hidden);
    const auto engine = MakeReferenceEngine(spec).value();
    CheckGradientsAgainstDifferences(*engine, MakeSamples(spec, 3, 8), 2e-3);
  }
}

TEST(ReferenceEngine, PartsOfABatchAddUp) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  CheckPartsAddUp(*MakeReferenceEngine(spec).value(), MakeSamples(spec, 3, 10));
}

// Per-sample numbers are rounded and their sums are not, so it makes no difference who has which.
TEST(ReferenceEngine, PartsOfABatchAddUpInLowPrecision) {
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    TrainingSpec spec = TwoLayers(Activation::kRelu);
    spec.precision = precision;
    CheckPartsAddUp(*MakeReferenceEngine(spec).value(), MakeSamples(spec, 3, 10));
  }
}

// Units in the last place are 2^-8 and 2^-11; each value goes through a few of them.
TEST(ReferenceEngine, LowPrecisionIsNearFloat32) {
  const TrainingSpec spec = TwoLayers(Activation::kSigmoid);
  const SampleData data = MakeSamples(spec, 3, 10);
  CheckNearFloat32(MakeReferenceEngine, spec, Precision::kBFloat16, data, 2e-2);
  CheckNearFloat32(MakeReferenceEngine, spec, Precision::kFloat16, data, 2.5e-3);
}

TEST(ReferenceEngine, GradientsTooLargeForFloat16AreTold) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  CheckOverflowIsTold(MakeReferenceEngine, spec, MakeSamples(spec, 3, 10));
}

TEST(ReferenceEngine, GradientsAreReadyLayerByLayer) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  CheckTellsWhatIsReady(*MakeReferenceEngine(spec).value(), MakeSamples(spec, 3, 10));
}

TEST(ReferenceEngine, TakesLentMemory) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  CheckTakesLentMemory(MakeReferenceEngine, spec, MakeSamples(spec, 3, 10));
  CheckTakesLentState(MakeReferenceEngine, spec, MakeSamples(spec, 3, 10));
}

TEST(ReferenceEngine, RunsRepeatBitwise) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  CheckRepeatsBitwise(MakeReferenceEngine, spec, MakeSamples(spec, 3, 10), 5);
}

TEST(ReferenceEngine, LearnsABatchByHeart) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  EXPECT_LT(TrainOnOneBatch(*MakeReferenceEngine(spec).value(), MakeSamples(spec, 3, 10), 400),
            0.1);
}

TEST(ReferenceEngine, AnotherSeedGivesOtherWeights) {
  TrainingSpec spec = TwoLayers(Activation::kRelu);
  const auto engine = MakeReferenceEngine(spec).value();
  spec.seed = 6;
  const auto other = MakeReferenceEngine(spec).value();
  EXPECT_NE(engine->Tensors()[0].data[0], other->Tensors()[0].data[0]);
}

TEST(ReferenceEngine, WhatItLacksIsRefusedWithTheLayer) {
  TrainingSpec spec = TwoLayers(Activation::kRelu);
  spec.model.layers[0] = DropoutLayer{};
  const auto engine = MakeReferenceEngine(spec);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().field(), "model.layers[0]");
  EXPECT_THAT(engine.error().message(), HasSubstr("only Flatten and Dense"));
}

TEST(ReferenceEngine, InputsOfTheWrongSizeAreRefused) {
  const TrainingSpec spec = TwoLayers(Activation::kRelu);
  const auto engine = MakeReferenceEngine(spec).value();
  const std::vector<float> inputs(5);
  const std::vector<float> labels(1);
  const auto result = engine->Evaluate({.inputs = inputs, .labels = labels, .sample_count = 1});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message(), HasSubstr("needs 6 inputs, got 5"));
}

}  // namespace
}  // namespace lockstep::runtime
