#include "trainer-runtime/train/trainer.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/train/test_gang.h"

namespace lockstep::runtime {
namespace {

constexpr int64_t kSampleCount = 50;
constexpr int64_t kTestSampleCount = 11;
constexpr int kClassCount = 3;

// Two-pixel images whose class is told by which pixel is brighter: learnable in a few steps.
Dataset MakeSamples(int64_t count) {
  IdxTensor images{{count, 1, 2}, {}};
  IdxTensor labels{{count}, {}};
  for (int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % kClassCount);
    images.values.push_back(static_cast<uint8_t>(label == 0 ? 200 + i % 50 : i % 50));
    images.values.push_back(static_cast<uint8_t>(label == 1 ? 200 + i % 50 : i % 50));
    labels.values.push_back(static_cast<uint8_t>(label));
  }
  return Dataset::Make(std::move(images), std::move(labels), 1.0 / 255, "samples").value();
}

TrainingSpec MakeSpec(int64_t step_count) {
  TrainingSpec spec;
  spec.seed = 7;
  spec.length = {LengthUnit::kSteps, step_count};
  spec.global_batch_size = 16;  // 50 samples: the fourth batch of an epoch has two
  spec.model.input_shape = {1, 2, 1};
  spec.model.layers = {FlattenLayer{}, DenseLayer{kClassCount, Activation::kLinear}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.optimizer = AdamOptimizer{0.05, 0.9, 0.999, 1e-7};
  spec.checkpoint.every_steps = 5;
  return spec;
}

// Data sets and engine of all tests here.
struct Samples {
  Dataset train = MakeSamples(kSampleCount);
  Dataset test = MakeSamples(kTestSampleCount);

  GangParts PartsFor(const TrainingSpec& spec) const {
    return {[spec] { return MakeReferenceEngine(spec).value(); }, &train, &test};
  }
};

const Samples& TestSamples() {
  static const Samples samples;
  return samples;
}

Gang MakeRanks(int count, const TrainingSpec& spec) {
  return MakeGang(count, spec, TestSamples().PartsFor(spec));
}

std::unique_ptr<GangRank> MakeRank(const TrainingSpec& spec,
                                   CheckpointStore* checkpoints = nullptr) {
  return std::make_unique<GangRank>(spec, TestSamples().PartsFor(spec), checkpoints);
}

class CheckpointDirectory {
 public:
  CheckpointDirectory() {
    std::string pattern = testing::TempDir() + "lockstep-trainer-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }

  ~CheckpointDirectory() { std::filesystem::remove_all(path_); }

  std::unique_ptr<CheckpointStore> Open(int64_t epoch) {
    CheckpointStoreOptions options;
    options.directory = path_;
    options.writer = {"uid", Attempt(0), Epoch(epoch), Incarnation(0)};
    options.logger = logger_.get();
    options.clock = &clock_;
    auto store = CheckpointStore::Open(std::move(options)).value();
    EXPECT_TRUE(store->Claim(Epoch(epoch), Incarnation(0)).ok());
    return store;
  }

 private:
  std::string path_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  SystemClock clock_;
};

TEST(Trainer, OneRankLearnsAndUsesEverySampleOnce) {
  const Gang ranks = MakeRanks(1, MakeSpec(40));
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kFinished);
  EXPECT_LT(ranks[0]->losses.back(), ranks[0]->losses.front() / 2);
  EXPECT_EQ(ranks[0]->trainer->test_result()->accuracy, 1.0);
  // 40 steps are ten data epochs of four batches.
  EXPECT_EQ(ranks[0]->trainer->SampleTotalsNow(), (SampleTotals{500, 500, 0, 0}));
}

TEST(Trainer, ThreeRanksTakeTheStepsOfOneRank) {
  const Gang one = MakeRanks(1, MakeSpec(50));
  const Gang three = MakeRanks(3, MakeSpec(50));
  RunMeeting(one, Epoch(1));
  RunMeeting(three, Epoch(1));
  ExpectAll(three, TrainerVerdict::kFinished);
  for (const auto& rank : three) {
    ASSERT_EQ(rank->losses.size(), 50U);
    for (std::size_t step = 0; step < 50; ++step) {
      // Relative: the bound that the sums' other order must stay within.
      EXPECT_NEAR(rank->losses[step], one[0]->losses[step], 1e-5 * one[0]->losses[step]);
    }
    EXPECT_EQ(Weights(rank->engine.get()), Weights(three[0]->engine.get()));
    EXPECT_EQ(rank->trainer->SampleTotalsNow(), one[0]->trainer->SampleTotalsNow());
  }
}

// Every collective call of the first steps is once the one at which a rank dies.
TEST(Trainer, LostRankIsReplacedAndNothingIsLostRepeatedOrChanged) {
  const TrainingSpec spec = MakeSpec(7);
  const Gang undisturbed = MakeRanks(3, spec);
  RunMeeting(undisturbed, Epoch(1));
  for (int calls_left = 0; calls_left < 30; ++calls_left) {
    Gang ranks = MakeRanks(3, spec);
    const std::size_t victim = static_cast<std::size_t>(calls_left) % 3;
    ranks[victim]->calls_left = calls_left;
    RunMeeting(ranks, Epoch(1));
    ASSERT_FALSE(ranks[victim]->verdict->ok());
    ranks[victim] = MakeRank(spec);
    RunMeeting(ranks, Epoch(2));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    for (const auto& rank : ranks) {
      ASSERT_EQ(Weights(rank->engine.get()), Weights(undisturbed[0]->engine.get())) << calls_left;
      ASSERT_EQ(rank->trainer->SampleTotalsNow(), undisturbed[0]->trainer->SampleTotalsNow());
    }
  }
}

TEST(Trainer, AllAskedToStopSaveAndStopAtOneStep) {
  const Gang ranks = MakeRanks(2, MakeSpec(1000));
  ranks[0]->after_step = [&](const StepReport& report) {
    if (report.step == Step(6)) {
      ranks[0]->is_stop_requested = true;
      ranks[1]->is_stop_requested = true;
    }
  };
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kStopped);
  EXPECT_EQ(ranks[0]->trainer->last_applied(), ranks[1]->trainer->last_applied());
  EXPECT_LE(ranks[0]->trainer->last_applied(), Step(8));
}

TEST(Trainer, ResumedFromCheckpointEndsLikeAnUninterruptedRun) {
  CheckpointDirectory directory;
  const auto first_store = directory.Open(1);
  Gang first_run;
  first_run.push_back(MakeRank(MakeSpec(13), first_store.get()));
  RunMeeting(first_run, Epoch(1));
  ExpectAll(first_run, TrainerVerdict::kFinished);

  const auto second_store = directory.Open(2);
  Gang second_run;
  second_run.push_back(MakeRank(MakeSpec(30), second_store.get()));
  RunMeeting(second_run, Epoch(2));
  ExpectAll(second_run, TrainerVerdict::kFinished);
  EXPECT_EQ(second_run[0]->losses.size(), 17U);

  const Gang whole = MakeRanks(1, MakeSpec(30));
  RunMeeting(whole, Epoch(1));
  EXPECT_EQ(Weights(second_run[0]->engine.get()), Weights(whole[0]->engine.get()));
  EXPECT_EQ(second_run[0]->trainer->SampleTotalsNow(), whole[0]->trainer->SampleTotalsNow());
}

TEST(Trainer, DroppedRemainderWithoutAWholeBatchIsRefused) {
  TrainingSpec spec = MakeSpec(1);
  spec.global_batch_size = 51;
  spec.remainder = RemainderRule::kDrop;
  const auto engine = MakeReferenceEngine(spec).value();
  const auto logger = MakeNullLogger();
  const Dataset train = MakeSamples(kSampleCount);
  const Dataset test;
  const auto made = Trainer::Make(spec, {engine.get(), &train, &test, nullptr, logger.get()}, {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().field(), "spec.training.globalBatchSize");
}

TEST(Snapshot, CutAnywhereIsRefused) {
  const auto rank = MakeRank(MakeSpec(1));
  TrainingState state(kSampleCount);
  const std::string bytes = EncodeSnapshot(TakeSnapshot(state, rank->engine.get(), 7, 1));
  EXPECT_TRUE(DecodeSnapshot(bytes).ok());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(DecodeSnapshot(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(Snapshot, OfAnotherModelNamesTheTensor) {
  const auto rank = MakeRank(MakeSpec(1));
  TrainingSpec other = MakeSpec(1);
  other.model.layers = {FlattenLayer{}, DenseLayer{kClassCount + 1, Activation::kLinear}};
  const auto other_rank = MakeRank(other);
  TrainingState state(kSampleCount);
  const Snapshot snapshot = TakeSnapshot(state, other_rank->engine.get(), 7, 1);
  const Status restored = RestoreSnapshot(snapshot, 7, &state, rank->engine.get());
  ASSERT_FALSE(restored.ok());
  EXPECT_NE(restored.error().message().find("kernel"), std::string::npos)
      << restored.error().message();
}

}  // namespace
}  // namespace lockstep::runtime
