// The bar of synchronous training, on the real engine and real digits: any number of ranks on one
// global batch takes the steps that one rank takes on it.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "common/json/json.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/train/test_gang.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kStepCount = 50;

TrainingSpec MakeSpec() {
  TrainingSpec spec;
  spec.seed = 3;
  spec.length = {LengthUnit::kSteps, kStepCount};
  spec.global_batch_size = 96;
  spec.model.input_shape = {28, 28, 1};
  spec.model.layers = {Conv2DLayer{32, {3, 3}, {1, 1}, Padding::kValid, Activation::kRelu},
                       MaxPooling2DLayer{},
                       FlattenLayer{},
                       DenseLayer{64, Activation::kRelu},
                       DenseLayer{10}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.dataset.train = {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
  spec.dataset.scale = 1.0 / 255;
  spec.dataset.test_samples = 1000;
  return spec;
}

TEST(TrainerOnTorch, ThreeRanksTakeTheStepsOfOneRank) {
  const TrainingSpec spec = MakeSpec();
  const DatasetSplits data = LoadDataset(spec.dataset, LOCKSTEP_TEST_MNIST).value();
  const EnginePlugin plugin = EnginePlugin::Load({LOCKSTEP_TEST_ENGINE_PLUGIN, ""}).value();
  const std::string spec_json = DumpJson(EncodeTrainingSpec(spec));
  const GangParts parts{
      [&] { return plugin.MakeEngine(spec_json).value(); }, &data.train, &data.test};
  const Gang one = MakeGang(1, spec, parts);
  const Gang three = MakeGang(3, spec, parts);
  RunMeeting(one, Epoch(1));
  RunMeeting(three, Epoch(1));
  ExpectAll(one, TrainerVerdict::kFinished);
  ExpectAll(three, TrainerVerdict::kFinished);
  double worst = 0;
  for (std::size_t step = 0; step < kStepCount; ++step) {
    const double expected = one[0]->losses.at(step);
    worst = std::max(worst, std::abs(three[0]->losses.at(step) - expected) / expected);
  }
  RecordProperty("largest_relative_difference", std::to_string(worst));
  std::printf("largest relative difference of %ld losses: %.2e\n", long{kStepCount}, worst);
  EXPECT_LE(worst, 1e-5);
  EXPECT_LT(one[0]->losses.back(), one[0]->losses.front() / 2);
  EXPECT_EQ(Weights(three[1]->engine.get()), Weights(three[0]->engine.get()));
  EXPECT_EQ(Weights(three[2]->engine.get()), Weights(three[0]->engine.get()));
}

}  // namespace
}  // namespace lockstep::runtime
