// The bar of synchronous training, on the real engine and real digits: any number of ranks on one
// global batch takes the steps that one rank takes on it.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "common/base/testing/paths.h"
#include "common/json/json.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/train/test_gang.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kStepCount = 50;
constexpr int64_t kBucketBytes = 256 * 1024;  // several a step

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
  spec.communication.bytes_per_pack = kBucketBytes;
  return spec;
}

struct Layout {
  int rank_count;
  int64_t replica_count;  // of each rank
  VariablePlacement variables = VariablePlacement::kMirrored;
};

// Trains `spec` on many replicas and on one, and returns the largest relative difference of the
// steps' losses.
double LargestDifference(const TrainingSpec& spec,
                         const Layout& layout,
                         const DatasetSplits& data) {
  const EnginePlugin plugin =
      EnginePlugin::Load({BuiltFile("bin/liblockstep-engine.so"), ""}).value();
  const GangParts parts{[&](const TrainingSpec& of_engine) {
                          return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(of_engine)));
                        },
                        &data.train,
                        &data.test};
  const Gang one = MakeGang(1, spec, parts);
  TrainingSpec spread = spec;
  spread.replicas = layout.replica_count;
  spread.variables = layout.variables;
  const Gang many = MakeGang(layout.rank_count, spread, parts);
  RunMeeting(one, Epoch(1));
  RunMeeting(many, Epoch(1));
  ExpectAll(one, TrainerVerdict::kFinished);
  ExpectAll(many, TrainerVerdict::kFinished);
  double worst = 0;
  for (std::size_t step = 0; step < one[0]->losses.size(); ++step) {
    const double expected = one[0]->losses[step];
    worst = std::max(worst, std::abs(many[0]->losses.at(step) - expected) / expected);
  }
  return worst;
}

// What a replica drops follows from where its samples stand in the global batch, so it is what one
// replica would drop of them; 50 samples a batch do not divide evenly.
TEST(TrainerOnTorch, DropoutIsTheSameAtEveryNumberOfReplicas) {
  TrainingSpec spec = MakeSpec();
  spec.global_batch_size = 50;
  spec.model.layers = {Conv2DLayer{8, {3, 3}, {1, 1}, Padding::kValid, Activation::kRelu},
                       DropoutLayer{0.3},
                       MaxPooling2DLayer{},
                       FlattenLayer{},
                       DropoutLayer{0.5},
                       DenseLayer{10}};
  const DatasetSplits data =
      LoadDataset(spec.dataset, RepositoryFile("examples/data/mnist")).value();
  for (const Layout layout : {Layout{3, 1},
                              Layout{1, 2},
                              Layout{1, 3},
                              Layout{2, 2},
                              Layout{1, 2, VariablePlacement::kCentral}}) {
    EXPECT_LE(LargestDifference(spec, layout, data), 1e-5)
        << layout.rank_count << " ranks of " << layout.replica_count;
  }
}

// Numbers in the middle between two of 16 bits go either way by the last bit of a float32 sum, and
// later steps build on them: 2^-8 and 2^-11, a few times over.
TEST(TrainerOnTorch, ThreeRanksTakeTheStepsOfOneRankIn16Bits) {
  const DatasetSplits data =
      LoadDataset(MakeSpec().dataset, RepositoryFile("examples/data/mnist")).value();
  TrainingSpec spec = MakeSpec();
  spec.precision = Precision::kBFloat16;
  EXPECT_LE(LargestDifference(spec, {3, 1}, data), 5e-2);
  spec.precision = Precision::kFloat16;
  EXPECT_LE(LargestDifference(spec, {3, 1}, data), 1e-2);
}

TEST(TrainerOnTorch, ThreeRanksTakeTheStepsOfOneRank) {
  const TrainingSpec spec = MakeSpec();
  const DatasetSplits data =
      LoadDataset(spec.dataset, RepositoryFile("examples/data/mnist")).value();
  const EnginePlugin plugin =
      EnginePlugin::Load({BuiltFile("bin/liblockstep-engine.so"), ""}).value();
  const GangParts parts{[&](const TrainingSpec& of_engine) {
                          return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(of_engine)));
                        },
                        &data.train,
                        &data.test};
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
  EXPECT_EQ(Weights(three[1]->engine), Weights(three[0]->engine));
  EXPECT_EQ(Weights(three[2]->engine), Weights(three[0]->engine));
}

}  // namespace
}  // namespace lockstep::runtime
