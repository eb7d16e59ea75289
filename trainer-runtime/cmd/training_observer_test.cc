#include "trainer-runtime/cmd/training_observer.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

class Observed : public ::testing::Test {
 protected:
  void Meet(std::size_t world_size) {
    Meeting meeting;
    meeting.members.resize(world_size);
    observer_.RendezvousEnds(meeting);
  }

  void TakeStep(int64_t step, int64_t sample_count) {
    StepReport report;
    report.step = Step(step);
    report.data_epoch = 2;
    report.epoch_accuracy = 0.75;
    report.sample_count = sample_count;
    observer_.Hooks().on_step(report);
  }

  StatusBoard board_{StatusDocument{}};
  Metrics metrics_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  TrainingObserver observer_{&board_, &metrics_, logger_.get(), 1};
};

// Summed over the ranks, the counter is what the job used.
TEST_F(Observed, SamplesAreTheRanksOwn) {
  Meet(3);
  TakeStep(1, 96);
  TakeStep(2, 96);
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("lockstep_samples_total 64\n"));
}

// A rank of several that trains a model of its own.
TEST_F(Observed, SamplesOfAModelOfItsOwnAreAllTheRanks) {
  observer_.TrainsAlone();
  TakeStep(1, 96);
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("lockstep_samples_total 96\n"));
}

// Whose steps are this rank's alone is told of those that others took meanwhile.
TEST_F(Observed, PaceIsOfTheSamplesThatAllHaveUsed) {
  observer_.TrainsAlone();
  StepReport report;
  report.sample_count = 96;
  report.samples_consumed = 96;
  observer_.Hooks().on_step(report);
  EXPECT_EQ(board_.Snapshot().samples_per_second, 0);
  observer_.Hooks().on_step(report);  // nobody has used any
  EXPECT_EQ(board_.Snapshot().samples_per_second, 0);
  report.samples_consumed = 4 * 96;
  observer_.Hooks().on_step(report);
  EXPECT_GT(board_.Snapshot().samples_per_second, 0);
}

TEST_F(Observed, AllModelsAreToldOnceTheyHaveMet) {
  observer_.Finished(EvaluationResult{0.5, 0.75}, SampleTotals{8, 8, 0, 0});
  EXPECT_EQ(board_.Snapshot().result, (TestResult{0.5, 0.75}));
  ModelsTogether all;
  all.result = TestResult{0.25, 0.875, {{0.1, 0.5, 0.75}, {0.2, 0.0, 1.0}}};
  all.samples = {16, 16, 0, 0};
  observer_.ModelsMet(all);
  EXPECT_EQ(board_.Snapshot().result, all.result);
  EXPECT_EQ(board_.Snapshot().samples.consumed, 16);
}

// Nobody reads NCCL's own log, and training is only slow.
TEST_F(Observed, NcclByTcpBesideCardsIsInTheStatus) {
  board_.Update([](StatusDocument& document) { document.backend_detail = "NCCL 2.30.7"; });
  observer_.CardsAreUnused("mlx5_0 (InfiniBand)");
  EXPECT_EQ(board_.Snapshot().backend_detail,
            "NCCL 2.30.7; over TCP (NET/Socket), although this node has mlx5_0 (InfiniBand)");
}

TEST_F(Observed, StepDataEpochAndAccuracyAreMetrics) {
  Meet(2);
  TakeStep(17, 8);
  const std::string page = metrics_.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_training_step 17\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_training_data_epoch 2\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_training_accuracy_ratio 0.75\n"));
}

// A silent peer first, then a collective that fails without a word of the mesh.
TEST_F(Observed, TheCauseOfOneLossIsNotThatOfTheNext) {
  Meet(2);
  observer_.PeerLost({Epoch(0), 0, Incarnation(0), LossReason::kSilent});
  Meet(2);
  TakeStep(1, 8);
  observer_.MeetingBroke(Epoch(1), Error(ErrorCode::kTimeout, "deadline passed"));
  Meet(2);
  TakeStep(2, 8);
  const std::string page = metrics_.RenderText();
  EXPECT_THAT(page, HasSubstr("lockstep_recoveries_total{cause=\"peer_silent\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("lockstep_recoveries_total{cause=\"collective_failed\"} 1\n"));
}

TEST_F(Observed, FolderThatTakesNoWriterIsAFailedCheckpoint) {
  observer_.NotSaved(Step(7), Error(ErrorCode::kResourceExhausted, "No space left on device"));
  const CheckpointStatus checkpoints = board_.Snapshot().checkpoints;
  EXPECT_EQ(checkpoints.failed, 1);
  EXPECT_THAT(checkpoints.last_error, HasSubstr("No space left on device"));
}

// All that is known of the data epochs of a job that has nothing left to train.
TEST_F(Observed, WhoResumesStandsAtTheStepAndTheDataEpochOfItsState) {
  observer_.Hooks().on_state_ready(Step(752), 8);
  EXPECT_EQ(board_.Snapshot().step, Step(752));
  EXPECT_EQ(board_.Snapshot().data_epoch, 8);
}

TEST_F(Observed, SkippedStepsAreToldFromTheStateOn) {
  observer_.Hooks().on_steps_skipped(3);
  EXPECT_EQ(board_.Snapshot().steps_skipped, 3);
  StepReport report;
  report.is_skipped = true;
  report.steps_skipped = 4;
  report.loss_scale = 512;
  observer_.Hooks().on_step(report);
  EXPECT_EQ(board_.Snapshot().steps_skipped, 4);
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("lockstep_steps_skipped_total 1\n"));
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("lockstep_loss_scale_ratio 512\n"));
}

// A pace that goes by them must not wait for the next count of what was lost.
TEST_F(Observed, EveryStepTellsTheSamplesUsedSoFar) {
  observer_.SamplesCounted({96, 90, 1, 7});
  StepReport report;
  report.step = Step(2);
  report.samples_consumed = 100;
  observer_.Hooks().on_step(report);
  EXPECT_EQ(board_.Snapshot().samples, (SampleCounts{100, 94, 1, 7}));
}

// After a restore in its midst the loss is the whole epoch's, so the samples are, and the time says
// of how many it is.
TEST_F(Observed, DataEpochThatWasEnteredInItsMidstSaysWhatItsTimeIsOf) {
  StepReport report;
  report.data_epoch = 2;
  for (int64_t step = 3; step <= 4; ++step) {
    report.step = Step(step);
    report.epoch_loss = 0.5;
    report.sample_count = 96;
    report.epoch_sample_count = report.epoch_loss_sample_count = 96 * step;
    observer_.Hooks().on_step(report);
  }
  report = {};
  report.step = Step(5);
  report.data_epoch = 3;
  report.sample_count = report.epoch_sample_count = report.epoch_loss_sample_count = 96;
  observer_.Hooks().on_step(report);
  observer_.Finished({}, {});
  const std::vector<DataEpochResult> history = board_.Snapshot().history;
  ASSERT_EQ(history.size(), 2U);
  EXPECT_EQ(history[0].step, 4);
  EXPECT_EQ(history[0].sample_count, 384);
  EXPECT_EQ(history[0].timed_sample_count, 192);
  EXPECT_EQ(history[1].sample_count, 96);
  EXPECT_EQ(history[1].timed_sample_count, std::nullopt);
  EXPECT_EQ(history[1].loss_sample_count, std::nullopt);
}

// In Float16 the first steps may all be skipped: their samples are used all the same.
TEST_F(Observed, DataEpochCountsTheSamplesOfSkippedStepsAndSaysWhatItsLossIsOver) {
  StepReport report;
  report.step = Step(1);
  report.is_skipped = true;
  report.sample_count = report.epoch_sample_count = 96;
  observer_.Hooks().on_step(report);
  report.step = Step(2);
  report.is_skipped = false;
  report.epoch_sample_count = 192;
  report.epoch_loss_sample_count = 96;
  observer_.Hooks().on_step(report);
  observer_.Finished({}, {});
  const std::vector<DataEpochResult> history = board_.Snapshot().history;
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0].sample_count, 192);
  EXPECT_EQ(history[0].loss_sample_count, 96);
  EXPECT_EQ(history[0].timed_sample_count, std::nullopt);
}

// Where workers share the steps out, none knows by its own what a data epoch has come to.
TEST_F(Observed, DataEpochOfSharedOutStepsIsWhatIsToldOfAll) {
  StepReport report;
  report.step = Step(7);
  report.is_share = true;
  report.epoch_loss = 0.25;
  report.sample_count = 96;
  observer_.Hooks().on_step(report);
  const DataEpochResult of_all{0, 10, 960, 0.5, 0.75};
  observer_.DataEpochOver(of_all);
  observer_.Finished({}, {});
  EXPECT_EQ(board_.Snapshot().step, Step(7));
  const std::vector<DataEpochResult> history = board_.Snapshot().history;
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0].loss, 0.5);
  EXPECT_EQ(history[0].step, 10);
  EXPECT_GT(history[0].seconds, 0);
}

TEST_F(Observed, DataEpochThatWasOverBeforeThisRankCameHasNoTime) {
  DataEpochResult over{0, 10, 960, 0.5, 0.75};
  over.timed_sample_count = 0;
  observer_.DataEpochOver(over);
  EXPECT_EQ(board_.Snapshot().history.at(0), over);
}

TEST_F(Observed, SamplesAreInTheStatusWhileTrainingRuns) {
  observer_.SamplesCounted({96, 90, 1, 7});
  EXPECT_EQ(board_.Snapshot().samples, (SampleCounts{96, 90, 1, 7}));
}

}  // namespace
}  // namespace lockstep::runtime
