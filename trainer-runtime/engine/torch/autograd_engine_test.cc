#include "trainer-runtime/engine/torch/autograd_engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "trainer-runtime/engine/dropout.h"
#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/engine/torch/autograd_network.h"
#include "trainer-runtime/engine/torch/network_cases.h"
#include "trainer-runtime/engine/torch/network_checks.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Result<std::unique_ptr<Engine>> MakeShared(const TrainingSpec& spec) {
  return MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kShared));
}

// As on a GPU, but for the device's name.
Result<std::unique_ptr<Engine>> MakeApart(const TrainingSpec& spec) {
  return MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kApart));
}

// A pool takes its neighbour somewhere within the difference, hence its tolerance; to 1e-5 of the
// hand-written layers is for autograd_parity_test.cc, where there are any.
TEST(AutogradEngine, GradientsOfEveryNetworkAreTheSlopesOfItsLoss) {
  for (const NetworkCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    const TrainingSpec spec = SpecOf(c);
    const bool has_pool = std::ranges::any_of(c.layers, [](const Layer& layer) {
      return std::holds_alternative<MaxPooling2DLayer>(layer);
    });
    CheckGradientsAgainstDifferences(
        *MakeApart(spec).value(), MakeSamples(spec, c.output_width, 6), has_pool ? 0.15 : 5e-2);
  }
}

TEST(AutogradEngine, EveryNetworkKeepsTheEnginesPromises) {
  CheckAllNetworks(MakeShared);
  CheckAllNetworks(MakeApart);
}

TEST(AutogradEngine, EveryNetworkKeepsItsPromisesInLowPrecision) {
  CheckAllNetworksInLowPrecision(MakeApart);
}

// An engine without LibTorch and without autograd.
TEST(AutogradEngine, TrainsAsTheReferenceDoes) {
  for (const NetworkCase& c : FlatCases()) {
    SCOPED_TRACE(c.name);
    const TrainingSpec spec = SpecOf(c);
    const auto reference = MakeReferenceEngine(spec);
    if (!reference.ok()) {
      continue;  // softmax within a network
    }
    const auto engine = MakeApart(spec).value();
    const SampleData data = MakeSamples(spec, c.output_width, 10);
    const double expected = TrainOnOneBatch(**reference, data, 10);
    EXPECT_NEAR(TrainOnOneBatch(*engine, data, 10), expected, 1e-4 * expected);
    const std::vector<float> found = ValuesOf(*engine);
    const std::vector<float> values = ValuesOf(**reference);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(found[i], values[i], 1e-4) << i;
    }
  }
}

TEST(AutogradEngine, DropoutFactorsAreThoseOfTheHostToTheBit) {
  const at::Tensor like = at::empty({7, 13});
  for (const uint64_t seed : {uint64_t{0}, uint64_t{42}, ~uint64_t{0}}) {
    for (const double rate : {0.0, 0.25, 0.5, 0.999}) {
      std::vector<float> expected(7 * 13);
      // Of layer 3, whose samples have 7 elements: base = Mix64(stream) + first_index.
      const std::vector<int64_t> bases = DropoutBases({{3, 7}}, seed, 1'000'003);
      FillDropoutFactors(Mix64(seed) + 3, rate, 7 * 1'000'003, expected);
      const at::Tensor factors = DropoutFactors(at::scalar_tensor(bases[0], at::kLong), rate, like);
      EXPECT_TRUE(std::ranges::equal(
          std::span<const float>(factors.data_ptr<float>(), expected.size()), expected))
          << seed << ", " << rate;
    }
  }
}

TEST(AutogradEngine, WhatIsApartIsSeenWhenItIsBroughtOver) {
  const NetworkCase c = FlatCases().front();
  const TrainingSpec spec = SpecOf(c);
  const SampleData data = MakeSamples(spec, c.output_width, 10);
  const auto engine = MakeApart(spec).value();
  EXPECT_EQ(engine->GradientBuffer().memory, MemoryKind::kCuda);
  EXPECT_NE(engine->GradientBuffer().address, engine->Gradients().data());
  EXPECT_EQ(engine->GradientBuffer().byte_count, engine->Gradients().size_bytes());
  const std::vector<float> seed = ValuesOf(*engine);
  TrainOnOneBatch(*engine, data, 1);
  const std::span<float> image = engine->Tensors()[0].data;
  EXPECT_EQ(image[0], seed[0]);
  EXPECT_NE(ValuesOf(*engine)[0], seed[0]);
  const double before = engine->Evaluate(data.All())->loss_sum;
  std::ranges::fill(image, 0.0F);
  EXPECT_EQ(engine->Evaluate(data.All())->loss_sum, before);
  ASSERT_TRUE(engine->BringToDevice(EnginePart::kState).ok());
  EXPECT_NE(engine->Evaluate(data.All())->loss_sum, before);
}

TEST(AutogradEngine, GradientsAreMeasuredAndScaledWhereTheyAre) {
  const NetworkCase c = FlatCases().front();
  const SampleData data = MakeSamples(SpecOf(c), c.output_width, 10);
  const auto engine = MakeApart(SpecOf(c)).value();
  ASSERT_TRUE(engine->ComputeGradients(data.All(), {}).ok());
  double squares = 0;
  for (const float gradient : GradientsOf(*engine)) {
    squares += static_cast<double>(gradient) * static_cast<double>(gradient);
  }
  const auto length = [&engine] {
    EXPECT_TRUE(engine->Measure().ok());
    return engine->TakeStep()->gradient_length;
  };
  EXPECT_NEAR(length(), std::sqrt(squares), 1e-9);
  std::vector<float> expected = GradientsOf(*engine);
  for (float& gradient : expected) {
    gradient *= 0.3F;
  }
  ASSERT_TRUE(engine->ScaleGradients(0.3F).ok());
  EXPECT_EQ(GradientsOf(*engine), expected);
  engine->Gradients()[0] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(engine->BringToDevice(EnginePart::kGradients).ok());
  EXPECT_FALSE(std::isfinite(length()));
}

TEST(AutogradEngine, WhatIsSharedIsTheHosts) {
  const auto engine = MakeShared(SpecOf(FlatCases().front())).value();
  EXPECT_EQ(engine->GradientBuffer().memory, MemoryKind::kHost);
  EXPECT_EQ(engine->GradientBuffer().address, engine->Gradients().data());
}

TEST(AutogradEngine, SaysWhatItComputesOn) {
  const auto engine = MakeShared(SpecOf(FlatCases().front())).value();
  EXPECT_THAT(engine->Description(), StartsWith("LibTorch "));
  EXPECT_THAT(engine->Description(), HasSubstr("autograd on CPU"));
}

TEST(AutogradEngine, EngineInTheHostsMemoryTakesNoGuardedUpdate) {
  const NetworkCase c = FlatCases().front();
  const auto engine = MakeShared(SpecOf(c)).value();
  const auto result = engine->ComputeGradients(MakeSamples(SpecOf(c), c.output_width, 10).All(),
                                               {.update = GuardedUpdate{}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kUnavailable);
}

// Before they are on a device, where a look at them would be a wait.
TEST(AutogradEngine, BadBatchesAreRefusedInTheWordsOfAllEngines) {
  const auto engine = MakeApart(SpecOf(FlatCases().front())).value();
  const std::vector<float> inputs(14);
  const std::vector<float> labels{1, 9};
  const auto of_class = engine->ComputeGradients(
      {.inputs = inputs, .labels = labels, .sample_count = 2}, StepOptions{});
  ASSERT_FALSE(of_class.ok());
  EXPECT_EQ(of_class.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(of_class.error().message(),
              HasSubstr("sample 1 of the batch is 9, expected a class"));
  const auto of_size = engine->Evaluate({.inputs = inputs, .labels = labels, .sample_count = 1});
  ASSERT_FALSE(of_size.ok());
  EXPECT_THAT(of_size.error().message(), HasSubstr("[7] needs 7 inputs, got 14"));
}

TEST(AutogradEngine, ModelWithoutParametersHasALossAndNoGradients) {
  TrainingSpec spec;
  spec.model.input_shape = {2, 2, 1};
  spec.model.layers = {FlattenLayer{}};
  spec.loss = kSparseLogits;
  const auto engine = MakeApart(spec).value();
  EXPECT_TRUE(engine->Gradients().empty());
  EXPECT_GT(engine->ComputeGradients(MakeSamples(spec, 4, 3).All(), {})->loss_sum, 0);
}

TEST(AutogradEngine, ModelThatDoesNotFitTogetherIsRefusedWithTheLayer) {
  TrainingSpec spec;
  spec.model.input_shape = {4, 4, 1};
  spec.model.layers = {DenseLayer{.units = 3}};
  const auto engine = MakeShared(spec);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().field(), "model.layers[0]");
}

}  // namespace
}  // namespace lockstep::runtime
