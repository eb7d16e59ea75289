// One job under every strategy: the same steps, and one checkpoint that fits all.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"

namespace lockstep::runtime {
namespace {

// How a job is spread out.
struct Layout {
  const char* name;
  int rank_count;
  int64_t replica_count;  // of each rank
  VariablePlacement variables = VariablePlacement::kMirrored;
};

constexpr Layout kLayouts[] = {{"one rank", 1, 1},
                               {"Mirrored x2", 1, 2},
                               {"Mirrored x3", 1, 3},
                               {"MultiWorkerMirrored 2", 2, 1},
                               {"MultiWorkerMirrored 3", 3, 1},
                               {"MultiWorkerMirrored 2 x 2", 2, 2},
                               {"CentralStorage x2", 1, 2, VariablePlacement::kCentral},
                               {"CentralStorage x3", 1, 3, VariablePlacement::kCentral}};

// Only the first rank writes and reads checkpoints.
Gang MakeLayout(const Layout& layout, TrainingSpec spec, CheckpointStore* store = nullptr) {
  spec.replicas = layout.replica_count;
  spec.variables = layout.variables;
  Gang gang;
  for (int rank = 0; rank < layout.rank_count; ++rank) {
    gang.push_back(
        std::make_unique<GangRank>(spec, TestSamples().Parts(), rank == 0 ? store : nullptr));
  }
  return gang;
}

// Of all replicas of all ranks: parameters and slots, of which replicas may have none.
std::vector<std::vector<float>> WeightsOfAll(const Gang& gang) {
  std::vector<std::vector<float>> weights;
  for (const auto& rank : gang) {
    for (int replica = 0; replica < rank->replicas->count(); ++replica) {
      weights.push_back(Weights(&rank->replicas->engine(replica)));
    }
  }
  return weights;
}

// Every replica has the parameters of the first, and where it keeps slots those, too.
void ExpectAllEqual(const Gang& gang, const std::string& name) {
  const std::vector<std::vector<float>> all = WeightsOfAll(gang);
  for (const std::vector<float>& weights : all) {
    ASSERT_FALSE(weights.empty());
    EXPECT_TRUE(std::equal(weights.begin(), weights.end(), all[0].begin())) << name;
  }
}

// Relative: the bound that the sums' other order must stay within.
void ExpectSameLosses(const std::vector<double>& found, const double* expected, const char* name) {
  for (std::size_t step = 0; step < found.size(); ++step) {
    ASSERT_NEAR(found[step], expected[step], 1e-5 * expected[step]) << name << ", step " << step;
  }
}

TEST(Strategies, AnyNumberOfReplicasTakesTheStepsOfOne) {
  const TrainingSpec spec = MakeSpec(50);
  const Gang one = MakeRanks(1, spec);
  RunMeeting(one, Epoch(1));
  for (const Layout& layout : kLayouts) {
    const Gang ranks = MakeLayout(layout, spec);
    RunMeeting(ranks, Epoch(1));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    ASSERT_EQ(ranks[0]->losses.size(), 50U);
    ExpectSameLosses(ranks[0]->losses, one[0]->losses.data(), layout.name);
    ExpectAllEqual(ranks, layout.name);
    EXPECT_EQ(ranks[0]->trainer->SampleTotalsNow(), one[0]->trainer->SampleTotalsNow());
    EXPECT_EQ(ranks[0]->trainer->test_result()->accuracy, one[0]->trainer->test_result()->accuracy);
    EXPECT_NEAR(ranks[0]->trainer->test_result()->loss, one[0]->trainer->test_result()->loss, 1e-5);
  }
}

TEST(Strategies, EqualRunsHaveEqualBits) {
  for (const Layout& layout : kLayouts) {
    const Gang first = MakeLayout(layout, MakeSpec(20));
    const Gang second = MakeLayout(layout, MakeSpec(20));
    RunMeeting(first, Epoch(1));
    RunMeeting(second, Epoch(1));
    EXPECT_EQ(first[0]->losses, second[0]->losses) << layout.name;
    EXPECT_EQ(WeightsOfAll(first), WeightsOfAll(second)) << layout.name;
  }
}

// Over a wire buckets are summed while backward makes the next ones.
TEST(Strategies, SumsBesideBackwardHaveTheBitsOfThoseAfterIt) {
  TrainingSpec spec = MakeSpec(20);
  spec.model.layers = {FlattenLayer{},
                       DenseLayer{9, Activation::kRelu},
                       DenseLayer{5, Activation::kSigmoid},
                       DenseLayer{kClassCount, Activation::kLinear}};
  for (const Layout& layout : kLayouts) {
    const Gang after = MakeLayout(layout, spec);
    const Gang beside = MakeLayout(layout, spec);
    ASSERT_GT(beside[0]->bucket_count, 3U);
    RunMeeting(after, Epoch(1));
    RunMeeting(beside, Epoch(1), GangHosts::kMany);
    ExpectAll(beside, TrainerVerdict::kFinished);
    EXPECT_EQ(after[0]->losses, beside[0]->losses) << layout.name;
    EXPECT_EQ(WeightsOfAll(after), WeightsOfAll(beside)) << layout.name;
    ExpectAllEqual(beside, layout.name);
  }
}

TEST(Strategies, OnlyTheFirstReplicaKeepsTheOptimizersStateWhereVariablesAreCentral) {
  const Gang central = MakeLayout({"", 1, 3, VariablePlacement::kCentral}, MakeSpec(1));
  const Gang mirrored = MakeLayout({"", 1, 3}, MakeSpec(1));
  const std::size_t parameters = central[0]->engine->Gradients().size();
  for (int replica = 0; replica < 3; ++replica) {
    const std::size_t slots = 2 * parameters;  // of Adam
    EXPECT_EQ(Weights(&mirrored[0]->replicas->engine(replica)).size(), parameters + slots);
    EXPECT_EQ(Weights(&central[0]->replicas->engine(replica)).size(),
              parameters + (replica == 0 ? slots : 0));
  }
}

// A batch of two samples leaves replicas without any: they take the step all the same.
TEST(Strategies, ReplicasWithoutSamplesTakeTheStep) {
  TrainingSpec spec = MakeSpec(10);
  spec.global_batch_size = 2;
  const Gang one = MakeRanks(1, spec);
  RunMeeting(one, Epoch(1));
  const Gang three = MakeLayout({"Mirrored x3", 1, 3}, spec);
  RunMeeting(three, Epoch(1));
  ExpectAll(three, TrainerVerdict::kFinished);
  ExpectSameLosses(three[0]->losses, one[0]->losses.data(), "Mirrored x3");
}

// Saved with each, resumed with each: the run goes on as though it had not been cut.
TEST(Strategies, CheckpointOfOneFitsAll) {
  const Gang whole = MakeRanks(1, MakeSpec(30));
  RunMeeting(whole, Epoch(1));
  for (const Layout& saver : kLayouts) {
    for (const Layout& resumer : kLayouts) {
      const std::string names = std::string(saver.name) + ", then " + resumer.name;
      CheckpointFolder directory;
      const auto first_store = directory.Open(1);
      const Gang first = MakeLayout(saver, MakeSpec(13), first_store.get());
      RunMeeting(first, Epoch(1));
      ExpectAll(first, TrainerVerdict::kFinished);
      const auto second_store = directory.Open(2);
      const Gang second = MakeLayout(resumer, MakeSpec(30), second_store.get());
      RunMeeting(second, Epoch(2));
      ExpectAll(second, TrainerVerdict::kFinished);
      ASSERT_EQ(second[0]->losses.size(), 17U) << names;
      ExpectSameLosses(second[0]->losses, whole[0]->losses.data() + 13, names.c_str());
      ExpectAllEqual(second, names);
      EXPECT_EQ(second[0]->trainer->SampleTotalsNow(), whole[0]->trainer->SampleTotalsNow());
    }
  }
}

// A rank of two replicas is lost and replaced: the newcomer's replicas both take the state. On
// hosts of their own most losses come in the middle of somebody's backward.
TEST(Strategies, LostRankOfReplicasIsReplacedAndNothingChanges) {
  const Layout layout{"MultiWorkerMirrored 2 x 2", 2, 2};
  const TrainingSpec spec = MakeSpec(7);
  const Gang undisturbed = MakeLayout(layout, spec);
  RunMeeting(undisturbed, Epoch(1));
  for (const GangHosts hosts : {GangHosts::kOne, GangHosts::kMany}) {
    for (int calls_left = 0; calls_left < 30; calls_left += 3) {
      Gang ranks = MakeLayout(layout, spec);
      const std::size_t victim = static_cast<std::size_t>(calls_left) % 2;
      ranks[victim]->calls_left = calls_left;
      RunMeeting(ranks, Epoch(1), hosts);
      ASSERT_FALSE(ranks[victim]->verdict->ok());
      ranks[victim] = std::move(MakeLayout({"", 1, 2}, spec).front());
      RunMeeting(ranks, Epoch(2), hosts);
      ExpectAll(ranks, TrainerVerdict::kFinished);
      ASSERT_EQ(WeightsOfAll(ranks), WeightsOfAll(undisturbed)) << calls_left;
    }
  }
}

// SGD's step is the gradient's, so its length shows what was clipped: the sum's over all ranks.
TEST(Strategies, ClippedStepOfAnyNumberOfRanksHasTheNormOfOne) {
  TrainingSpec spec = MakeSpec(1);
  spec.optimizer = SgdOptimizer{.learning_rate = 1};
  const auto length_of_step = [&](int rank_count, int64_t replicas) {
    spec.replicas = replicas;
    const Gang gang = MakeRanks(rank_count, spec);
    const std::vector<float> before = Weights(gang[0]->engine);
    RunMeeting(gang, Epoch(1));
    ExpectAll(gang, TrainerVerdict::kFinished);
    double squares = 0;
    for (const auto& rank : gang) {
      EXPECT_EQ(Weights(rank->engine), Weights(gang[0]->engine));
    }
    const std::vector<float> after = Weights(gang[0]->engine);
    for (std::size_t i = 0; i < before.size(); ++i) {
      squares += std::pow(static_cast<double>(after[i]) - before[i], 2);
    }
    return std::sqrt(squares);
  };
  ASSERT_GT(length_of_step(1, 1), 0.2);
  spec.gradient_clip_norm = 0.125;
  EXPECT_NEAR(length_of_step(1, 1), 0.125, 1e-6);
  EXPECT_NEAR(length_of_step(3, 1), 0.125, 1e-6);
  EXPECT_NEAR(length_of_step(2, 2), 0.125, 1e-6);
}

// Nobody looks at the numbers of these between the last update and what is asked here.
TEST(Strategies, StateIsTheNewestToWhoeverReadsIt) {
  TrainingSpec spec = MakeSpec(13);
  spec.terminate_on_nan = false;
  const Gang read = MakeRanks(1, spec);
  const Gang written = MakeRanks(1, spec);
  RunMeeting(read, Epoch(1));
  RunMeeting(written, Epoch(1));
  const std::vector<float> slots = read[0]->trainer->ReadValues(TensorKind::kOptimizerSlot).value();
  const std::size_t count = read[0]->engine->Gradients().size();
  const std::vector<float> parameters(count, 0.5F);
  ASSERT_TRUE(written[0]->trainer->WriteValues(parameters, {}).ok());
  EXPECT_EQ(written[0]->trainer->ReadValues(TensorKind::kParameter).value(), parameters);
  EXPECT_EQ(written[0]->trainer->ReadValues(TensorKind::kOptimizerSlot).value(), slots);
}

TEST(Strategies, CheckpointOfATrainingThatLooksForNoNanIsWhole) {
  TrainingSpec spec = MakeSpec(30);
  spec.terminate_on_nan = false;
  const Gang whole = MakeRanks(1, spec);
  RunMeeting(whole, Epoch(1));
  CheckpointFolder directory;
  for (const int64_t steps : {13, 30}) {
    spec.length.count = steps;
    const auto store = directory.Open(steps);
    const Gang part = MakeLayout({"one rank", 1, 1}, spec, store.get());
    RunMeeting(part, Epoch(steps));
    ExpectAll(part, TrainerVerdict::kFinished);
    EXPECT_EQ(part[0]->losses.back(), whole[0]->losses[static_cast<std::size_t>(steps) - 1]);
  }
}

}  // namespace
}  // namespace lockstep::runtime
