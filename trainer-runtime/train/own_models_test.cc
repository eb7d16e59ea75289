#include "trainer-runtime/train/own_models.h"

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "common/contract/training/state_fingerprint.h"
#include "trainer-runtime/collectives/testing_world.h"
#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"

namespace lockstep::runtime {
namespace {

constexpr int kRankCount = 3;

TrainingSpec OwnModelSpec() {
  TrainingSpec spec = MakeSpec(0);
  spec.length = {LengthUnit::kEpochs, 3};
  spec.variables = VariablePlacement::kIndependent;
  return spec;
}

// A rank that trains a model of its own on its part of the samples, apart from all others.
class OwnModel {
 public:
  explicit OwnModel(int rank, int replicas = 1, CheckpointStore* checkpoints = nullptr)
      : part_(TestSamples().train.Part(rank, kRankCount)) {
    TrainingSpec spec = SpecOfModel(OwnModelSpec(), rank);
    spec.replicas = replicas;
    const GangParts parts{MakeTestEngine, &part_, &TestSamples().test};
    gang_.push_back(std::make_unique<GangRank>(spec, parts, checkpoints));
    RunMeeting(gang_, Epoch(1));
  }

  const Gang& gang() const { return gang_; }

  GangRank& rank() const { return *gang_.front(); }

 private:
  Dataset part_;
  Gang gang_;
};

TEST(SpecOfModel, SeedsDifferByTheRankAndNothingElseDoes) {
  TrainingSpec spec = OwnModelSpec();
  const TrainingSpec third = SpecOfModel(spec, 2);
  EXPECT_EQ(third.seed, spec.seed + 2);
  spec.seed += 2;
  EXPECT_EQ(third, spec);
  spec.seed = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(SpecOfModel(spec, 0).seed, spec.seed);
  EXPECT_EQ(SpecOfModel(spec, 1).seed, 0);
}

// A rank's model is what a job of one worker with its seed makes of its samples.
TEST(OwnModels, EachIsThatOfOneWorkerOnItsPart) {
  for (int rank = 0; rank < kRankCount; ++rank) {
    const OwnModel mine(rank);
    ExpectAll(mine.gang(), TrainerVerdict::kFinished);
    TrainingSpec alone = OwnModelSpec();
    alone.variables = VariablePlacement::kMirrored;
    alone.seed += rank;
    const Dataset part = TestSamples().train.Part(rank, kRankCount);
    Gang one;
    one.push_back(
        std::make_unique<GangRank>(alone, GangParts{MakeTestEngine, &part, &TestSamples().test}));
    RunMeeting(one, Epoch(1));
    EXPECT_EQ(Weights(mine.rank().engine), Weights(one[0]->engine)) << rank;
  }
}

// Replicas share the batches of their rank's model.
TEST(OwnModels, ReplicasTakeTheStepsOfOne) {
  const OwnModel one(1);
  const OwnModel two(1, 2);
  ASSERT_EQ(two.rank().losses.size(), one.rank().losses.size());
  for (std::size_t step = 0; step < one.rank().losses.size(); ++step) {
    // Relative: the bound that the sums' other order must stay within.
    EXPECT_NEAR(two.rank().losses[step], one.rank().losses[step], 1e-5 * one.rank().losses[step]);
  }
}

TEST(OwnModels, AllTogetherUseEverySampleOnceAnEpoch) {
  std::vector<ModelReport> reports;
  for (int rank = 0; rank < kRankCount; ++rank) {
    reports.push_back(ReportOf(&*OwnModel(rank).rank().trainer));
  }
  EXPECT_EQ(reports[0].samples.consumed, 51);  // 17 of 50 samples, three times
  EXPECT_EQ(reports[2].samples.consumed, 48);
  EXPECT_EQ(Combine(reports).samples, (SampleCounts{150, 150, 0, 0}));
}

TEST(OwnModels, CheckpointOfAnotherRankIsRefusedWithBoth) {
  CheckpointFolder folder;
  const auto written = folder.Open(1);
  const OwnModel first(0, 1, written.get());
  ExpectAll(first.gang(), TrainerVerdict::kFinished);
  const auto read = folder.Open(2);
  const OwnModel resumed(0, 1, read.get());
  ExpectAll(resumed.gang(), TrainerVerdict::kFinished);
  EXPECT_TRUE(resumed.rank().losses.empty()) << "nothing is left to train";
  const auto read_by_other = folder.Open(3);
  const OwnModel other(1, 1, read_by_other.get());
  ASSERT_FALSE(other.rank().verdict->ok());
  const std::string told = other.rank().verdict->error().ToString();
  EXPECT_NE(told.find("data.part: \"1 of 3\" found, the saved state was made with \"0 of 3\""),
            std::string::npos)
      << told;
}

TEST(Combine, MeansAreOverAllModelsAndAbsentWhereOneIs) {
  const ModelReport a{{0.5, 0.25, 1.0}, {10, 10, 0, 0}};
  const ModelReport b{{1.5, 0.75, std::nullopt}, {12, 11, 1, 2}};
  const ModelsTogether all = Combine({a, b});
  EXPECT_EQ(all.training_loss, 1.0);
  EXPECT_EQ(all.result.test_loss, 0.5);
  EXPECT_FALSE(all.result.test_accuracy.has_value());
  EXPECT_EQ(all.result.models, (std::vector<ModelResult>{a.result, b.result}));
  EXPECT_EQ(all.samples, (SampleCounts{22, 21, 1, 2}));
}

TEST(ExchangeReports, EveryRankHasAllByRank) {
  std::vector<ModelReport> reports;
  for (int rank = 0; rank < kRankCount; ++rank) {
    reports.push_back({{1.0 / (rank + 3), std::nullopt, 0.5}, {rank, rank, 0, 0}});
  }
  reports[1].result.test_loss = 0.125;
  std::vector<std::vector<ModelReport>> heard(kRankCount);
  RunThreads(kRankCount, Backend::kTcp, [&](Communicator& communicator) {
    RankControl control(&communicator);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    heard[rank] = ExchangeReports(reports[rank], &control, Soon()).value();
  });
  for (const std::vector<ModelReport>& all : heard) {
    EXPECT_EQ(all, reports);
  }
}

// A loss that is no number ends no job where terminateOnNaN is off, and is null to people.
TEST(ExchangeReports, NumbersThatAreNotFiniteAreAbsent) {
  const ModelReport mine{{std::numeric_limits<double>::quiet_NaN(), {}, {}}, {1, 1, 0, 0}};
  RunThreads(2, Backend::kTcp, [&](Communicator& communicator) {
    RankControl control(&communicator);
    const auto all = ExchangeReports(mine, &control, Soon()).value();
    EXPECT_FALSE(all[0].result.training_loss.has_value());
  });
}

}  // namespace
}  // namespace lockstep::runtime
