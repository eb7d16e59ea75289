// A rank alone whose engine is on a device: the device takes each update, and the host waits once a
// step. What comes out is what the host's calls come to, to the bit.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/engine/testing/fake_device_engine.h"
#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"
#include "trainer-runtime/train/testing/counted_engine.h"

namespace lockstep::runtime {
namespace {

GangParts Counted(EngineCalls* calls, bool is_on_device) {
  GangParts parts = TestSamples().Parts();
  parts.make_engine = [=](const TrainingSpec& spec) -> Result<std::unique_ptr<Engine>> {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> inner, MakeReferenceEngine(spec));
    if (is_on_device) {
      inner = MakeFakeDeviceEngine(std::move(inner));
    }
    return MakeCountedEngine(std::move(inner), calls);
  };
  return parts;
}

// What clips are lengths, whose sums of squares are added in another order on the double.
void ExpectSame(const GangRank& found, const GangRank& expected, bool is_clipped) {
  if (!is_clipped) {
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(Weights(found.engine), Weights(expected.engine));
    return;
  }
  EXPECT_THAT(Weights(found.engine),
              testing::Pointwise(testing::FloatNear(1e-5F), Weights(expected.engine)));
}

TEST(GuardedStepTrainer, RankAloneComesToTheBitsOfTheHostAndWaitsOnceAStep) {
  for (const OptimizerSpec& optimizer :
       {OptimizerSpec(SgdOptimizer{.learning_rate = 0.3, .momentum = 0.9}),
        OptimizerSpec(AdamOptimizer{})}) {
    for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
      for (const std::optional<double> norm_max : {std::optional<double>(), {0.01}}) {
        for (const bool terminate_on_nan : {false, true}) {
          TrainingSpec spec = MakeSpec(20);
          spec.optimizer = optimizer;
          spec.precision = precision;
          spec.gradient_clip_norm = norm_max;
          spec.terminate_on_nan = terminate_on_nan;
          EngineCalls on_device;
          const Gang alone = MakeGang(1, spec, Counted(&on_device, true));
          RunMeeting(alone, Epoch(1));
          ExpectAll(alone, TrainerVerdict::kFinished);
          EngineCalls on_host;
          const Gang by_host = MakeGang(1, spec, Counted(&on_host, false));
          RunMeeting(by_host, Epoch(1));
          ExpectAll(by_host, TrainerVerdict::kFinished);
          EXPECT_EQ(on_device.guarded, 20);
          EXPECT_EQ(on_device.waits, 0);
          EXPECT_EQ(on_device.updates, 0);
          EXPECT_EQ(on_host.guarded, 0);
          EXPECT_EQ(on_host.updates, 20);
          ExpectSame(*alone[0], *by_host[0], norm_max.has_value());
        }
      }
    }
  }
}

// All but the first of a data epoch, which has four: the double takes no other batch for it. An
// engine in the host's memory is asked nothing.
TEST(GuardedStepTrainer, BatchesComeToTheDeviceWhileItComputes) {
  for (const int rank_count : {1, 2}) {
    for (const int replicas : {1, 2}) {
      TrainingSpec spec = MakeSpec(20);
      spec.replicas = replicas;
      EngineCalls on_device;
      const Gang gang = MakeGang(rank_count, spec, Counted(&on_device, true));
      RunMeeting(gang, Epoch(1));
      ExpectAll(gang, TrainerVerdict::kFinished);
      EXPECT_EQ(on_device.prefetched, 15 * rank_count * replicas);
      EngineCalls on_host;
      const Gang by_host = MakeGang(rank_count, spec, Counted(&on_host, false));
      RunMeeting(by_host, Epoch(1));
      ExpectAll(by_host, TrainerVerdict::kFinished);
      EXPECT_EQ(on_host.prefetched, 0);
    }
  }
}

TEST(GuardedStepTrainer, RanksWithPeersApplyWhatTheyHaveSummed) {
  EngineCalls calls;
  const Gang two = MakeGang(2, MakeSpec(5), Counted(&calls, true));
  RunMeeting(two, Epoch(1));
  ExpectAll(two, TrainerVerdict::kFinished);
  EXPECT_EQ(calls.guarded, 0);
  EXPECT_EQ(calls.updates, 10);
}

class LineLog final : public Logger {
 public:
  explicit LineLog(std::vector<std::string>* lines) : lines_(lines) {}

  void Log(LogLevel /*level*/, std::string_view message, LogFields fields) override {
    lines_->push_back(FormatLogText(message, fields));
  }

 private:
  std::vector<std::string>* lines_;
};

TEST(GuardedStepTrainer, WhatAnEngineSaysIsLoggedOnceWithItsReplica) {
  EngineCalls calls;
  std::vector<std::string> lines;
  GangParts parts = Counted(&calls, true);
  parts.make_logger = [&lines] { return std::make_unique<LineLog>(&lines); };
  TrainingSpec spec = MakeSpec(5);
  spec.replicas = 2;
  const Gang ranks = MakeGang(1, spec, parts);
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kFinished);
  EXPECT_THAT(lines,
              testing::IsSupersetOf(
                  {"the numeric engine says replica=0 words=\"this is a double of a GPU\"",
                   "the numeric engine says replica=1 words=\"this is a double of a GPU\""}));
  EXPECT_EQ(std::ranges::count_if(
                lines, [](const std::string& line) { return line.starts_with("the numeric"); }),
            2);
}

// The device refuses what the host would have refused, in the same words at the same step.
TEST(GuardedStepTrainer, DivergedTrainingEndsWithTheLastFiniteState) {
  TrainingSpec spec = MakeSpec(40);
  spec.loss = {LossType::kMeanSquaredError, false};
  spec.model.layers = {FlattenLayer{}, DenseLayer{1, Activation::kLinear}};
  spec.optimizer = SgdOptimizer{.learning_rate = 1000};
  std::vector<float> weights;
  std::string trouble;
  for (const bool is_on_device : {false, true}) {
    EngineCalls calls;
    const Gang ranks = MakeGang(1, spec, Counted(&calls, is_on_device));
    RunMeeting(ranks, Epoch(1));
    ExpectAll(ranks, TrainerVerdict::kDiverged);
    EXPECT_EQ(calls.guarded > 0, is_on_device);
    if (is_on_device) {
      EXPECT_EQ(Weights(ranks[0]->engine), weights);
      EXPECT_EQ(ranks[0]->trainer->trouble(), trouble);
    }
    weights = Weights(ranks[0]->engine);
    trouble = ranks[0]->trainer->trouble();
    EXPECT_FALSE(trouble.empty());
  }
}

}  // namespace
}  // namespace lockstep::runtime
