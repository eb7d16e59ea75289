#include "trainer-runtime/train/trainer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/digest.h"
#include "common/base/io/file.h"
#include "common/json/json.h"
#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/train/test_gang.h"
#include "trainer-runtime/train/test_job.h"

namespace lockstep::runtime {
namespace {

TEST(Trainer, OneRankLearnsAndUsesEverySampleOnce) {
  const Gang ranks = MakeRanks(1, MakeSpec(40));
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kFinished);
  EXPECT_LT(ranks[0]->losses.back(), ranks[0]->losses.front() / 2);
  EXPECT_EQ(ranks[0]->trainer->test_result()->accuracy, 1.0);
  // 40 steps are ten data epochs of four batches.
  EXPECT_EQ(ranks[0]->trainer->SampleTotalsNow(), (SampleTotals{500, 500, 0, 0}));
}

// Of a data epoch's batches the last is smaller.
TEST(Trainer, EveryStepTellsTheSamplesUsedSoFar) {
  const Gang ranks = MakeRanks(1, MakeSpec(9));
  std::vector<int64_t> told;
  std::vector<int64_t> counted;
  ranks[0]->after_step = [&](const StepReport& report) {
    told.push_back(report.samples_consumed);
    counted.push_back(ranks[0]->trainer->SampleTotalsNow().consumed);
  };
  RunMeeting(ranks, Epoch(1));
  EXPECT_EQ(told, counted);
  EXPECT_EQ(told.at(3), kSampleCount);
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
    EXPECT_EQ(Weights(rank->engine), Weights(three[0]->engine));
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
      ASSERT_EQ(Weights(rank->engine), Weights(undisturbed[0]->engine)) << calls_left;
      ASSERT_EQ(rank->trainer->SampleTotalsNow(), undisturbed[0]->trainer->SampleTotalsNow());
    }
  }
}

// One rank dies wherever it has sent so many bytes and a multiple of the stride: of each death
// nothing is lost, repeated or changed. Says whether survivors ever stood at different steps.
void SweepDeaths(int64_t first_bytes, bool* is_uneven) {
  const TrainingSpec spec = MakeSpec(2);
  const Gang undisturbed = MakeRanks(3, spec);
  RunMeeting(undisturbed, Epoch(1));
  // Below the size of the last message of a step, so that one survivor has it and the other not.
  constexpr int64_t kStride = 47;
  constexpr int64_t kBytesMax = 1 << 20;  // far above what a rank sends
  int64_t death_count = 0;
  for (int64_t bytes_left = first_bytes; bytes_left < kBytesMax; bytes_left += kStride) {
    Gang ranks = MakeRanks(3, spec);
    const std::size_t victim = static_cast<std::size_t>(bytes_left) % 3;
    ranks[victim]->bytes_left = bytes_left;
    RunMeeting(ranks, Epoch(1));
    if (ranks[victim]->verdict->ok()) {
      break;  // it had sent all it had to send
    }
    ++death_count;
    const auto step_of = [&](std::size_t i) {
      return ranks[(victim + i) % 3]->trainer->last_applied();
    };
    *is_uneven = *is_uneven || step_of(1) != step_of(2);
    ranks[victim] = MakeRank(spec);
    RunMeeting(ranks, Epoch(2));
    ExpectAll(ranks, TrainerVerdict::kFinished);
    for (const auto& rank : ranks) {
      ASSERT_EQ(Weights(rank->engine), Weights(undisturbed[0]->engine)) << bytes_left;
      ASSERT_EQ(rank->trainer->SampleTotalsNow(), undisturbed[0]->trainer->SampleTotalsNow());
    }
  }
  EXPECT_GT(death_count, 10);
}

// A rank dies wherever in a call: some have its part of a sum and take the step, others do not.
// Whether a survivor has read it before it sees the connection end is for the machine to say, so a
// busy one gets more chances.
TEST(Trainer, RankLostWithinACallIsReplacedAndNothingIsLostRepeatedOrChanged) {
  bool is_uneven = false;
  for (int64_t sweep = 1; sweep <= 5 && !is_uneven; ++sweep) {
    SweepDeaths(sweep, &is_uneven);
  }
  EXPECT_TRUE(is_uneven) << "no death was within a call";
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
  CheckpointFolder directory;
  const auto first_store = directory.Open(1);
  Gang first_run;
  first_run.push_back(MakeRank(MakeSpec(13), first_store.get()));
  RunMeeting(first_run, Epoch(1));
  ExpectAll(first_run, TrainerVerdict::kFinished);

  const auto second_store = directory.Open(2);
  Gang second_run;
  second_run.push_back(MakeRank(MakeSpec(30), second_store.get()));
  std::vector<int64_t> of_epoch;  // what loss and accuracy are over, whoever used them
  second_run[0]->after_step = [&of_epoch](const StepReport& report) {
    of_epoch.push_back(report.epoch_sample_count);
  };
  RunMeeting(second_run, Epoch(2));
  ExpectAll(second_run, TrainerVerdict::kFinished);
  EXPECT_EQ(second_run[0]->losses.size(), 17U);
  of_epoch.resize(4);  // the last three batches of the fourth epoch, and the first of the fifth
  EXPECT_EQ(of_epoch, (std::vector<int64_t>{32, 48, 50, 16}));

  const Gang whole = MakeRanks(1, MakeSpec(30));
  RunMeeting(whole, Epoch(1));
  EXPECT_EQ(Weights(second_run[0]->engine), Weights(whole[0]->engine));
  EXPECT_EQ(second_run[0]->trainer->SampleTotalsNow(), whole[0]->trainer->SampleTotalsNow());
}

// The crash of a batch index beyond the epoch, and samples lost or repeated in silence.
TEST(Trainer, ResumedWithAnotherBatchSizeUsesEverySampleOnce) {
  for (const RemainderRule rule : {RemainderRule::kKeep, RemainderRule::kDrop}) {
    for (const int64_t steps : {1, 3, 4, 6}) {
      for (const int64_t batch_size : {7, 15, 17, 50}) {
        CheckpointFolder directory;
        TrainingSpec spec = MakeSpec(steps);
        spec.remainder = rule;
        const auto first_store = directory.Open(1);
        Gang first_run;
        first_run.push_back(MakeRank(spec, first_store.get()));
        RunMeeting(first_run, Epoch(1));
        ExpectAll(first_run, TrainerVerdict::kFinished);

        spec.length = {LengthUnit::kEpochs, 4};
        spec.global_batch_size = batch_size;
        const auto second_store = directory.Open(2);
        Gang second_run;
        second_run.push_back(MakeRank(spec, second_store.get()));
        RunMeeting(second_run, Epoch(2));
        ExpectAll(second_run, TrainerVerdict::kFinished);
        const Trainer& trainer = *second_run[0]->trainer;
        EXPECT_EQ(trainer.last_applied().value(), trainer.step_count_total());
        const SampleTotals totals = second_run[0]->trainer->SampleTotalsNow();
        ASSERT_EQ(totals.lost + totals.repeated, 0) << steps << " steps, then " << batch_size;
        ASSERT_EQ(totals.consumed, totals.expected);
        if (rule == RemainderRule::kKeep) {
          ASSERT_EQ(totals.consumed, 4 * kSampleCount);
        }
      }
    }
  }
}

// It has more behind it than it asks for, and says how much that is.
TEST(Trainer, JobThatWasMadeShorterAsksForTheStepsOfItsDataEpochs) {
  CheckpointFolder directory;
  TrainingSpec spec = MakeSpec(13);
  const auto first_store = directory.Open(1);
  Gang first_run;
  first_run.push_back(MakeRank(spec, first_store.get()));
  RunMeeting(first_run, Epoch(1));

  const int64_t steps_per_epoch =
      (kSampleCount + spec.global_batch_size - 1) / spec.global_batch_size;
  ASSERT_GT(13, 2 * steps_per_epoch);
  spec.length = {LengthUnit::kEpochs, 1};
  const auto second_store = directory.Open(2);
  Gang second_run;
  second_run.push_back(MakeRank(spec, second_store.get()));
  RunMeeting(second_run, Epoch(2));
  ExpectAll(second_run, TrainerVerdict::kFinished);
  EXPECT_EQ(second_run[0]->trainer->last_applied(), Step(13));
  EXPECT_EQ(second_run[0]->trainer->step_count_total(), steps_per_epoch);
  EXPECT_EQ(second_run[0]->trainer->last_step(), 13);
  EXPECT_EQ(second_run[0]->trainer->NextSave(13), 13);
}

// Resumes a checkpoint of seven steps under a changed job; the error, or "" when it ran.
std::string ErrorOfResuming(const TrainingSpec& changed,
                            const std::function<void(CheckpointFolder*)>& meanwhile = {}) {
  CheckpointFolder directory;
  const auto first_store = directory.Open(1);
  Gang first_run;
  first_run.push_back(MakeRank(MakeSpec(7), first_store.get()));
  RunMeeting(first_run, Epoch(1));
  if (meanwhile) {
    meanwhile(&directory);
  }
  const auto second_store = directory.Open(2);
  Gang second_run;
  second_run.push_back(MakeRank(changed, second_store.get()));
  RunMeeting(second_run, Epoch(2));
  const Result<TrainerVerdict>& verdict = *second_run[0]->verdict;
  if (verdict.ok()) {
    EXPECT_EQ(*verdict, TrainerVerdict::kFinished);
    return "";
  }
  EXPECT_EQ(verdict.error().code(), ErrorCode::kInvalidArgument);
  return verdict.error().ToString();
}

TEST(Trainer, ResumedUnderAJobOfAnotherMeaningIsRefusedWithBothValues) {
  EXPECT_EQ(ErrorOfResuming(MakeSpec(9)), "");
  TrainingSpec changed = MakeSpec(9);
  changed.dataset.shuffle = false;
  EXPECT_NE(ErrorOfResuming(changed).find("dataset.shuffle: false found, the saved state was made "
                                          "with true"),
            std::string::npos);
  changed = MakeSpec(9);
  changed.model.layers.back() = DenseLayer{kClassCount, Activation::kSigmoid};
  EXPECT_NE(ErrorOfResuming(changed).find("layers[1].activation: \"sigmoid\" found, the saved "
                                          "state was made with \"linear\""),
            std::string::npos);
}

// Makes the newest manifest one of the first release's.
void MakeFirstFormat(CheckpointFolder* directory) {
  const std::string path = directory->path() + "/step-00000007/manifest.json";
  Json manifest = ParseJson(ReadFile(path, 1 << 20).value()).value();
  manifest["formatVersion"] = 1;
  manifest["cursor"]["batchIndex"] = 3;
  for (const char* later : {"fingerprint", "epochSums", "isFinite", "sha256"}) {
    manifest.erase(later);
  }
  manifest["cursor"].erase("position");
  manifest["sha256"] = Sha256Hex(DumpJson(manifest));
  ASSERT_TRUE(WriteFileAtomically(path, DumpJson(manifest)).ok());
}

// They hold no fingerprint, but counters that show which samples were used.
TEST(Trainer, CheckpointOfTheFirstFormatIsResumedExactlyOrRefused) {
  EXPECT_EQ(ErrorOfResuming(MakeSpec(9), MakeFirstFormat), "");
  TrainingSpec changed = MakeSpec(9);
  changed.global_batch_size = 5;
  EXPECT_EQ(ErrorOfResuming(changed, MakeFirstFormat), "");
  changed = MakeSpec(9);
  changed.dataset.shuffle = false;
  EXPECT_NE(ErrorOfResuming(changed, MakeFirstFormat).find("to continue data epoch 1 would lose"),
            std::string::npos);
}

TEST(Trainer, LossThatIsNotFiniteStopsAtItsStepOnEveryRank) {
  TrainingSpec spec = MakeSpec(40);
  spec.loss = {LossType::kMeanSquaredError, false};
  spec.model.layers = {FlattenLayer{}, DenseLayer{1, Activation::kLinear}};
  spec.optimizer = SgdOptimizer{1000, 0, false};
  CheckpointFolder directory;
  const auto store = directory.Open(1);
  Gang ranks;
  ranks.push_back(MakeRank(spec, store.get()));
  ranks.push_back(MakeRank(spec));
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kDiverged);
  for (const auto& rank : ranks) {
    EXPECT_LT(rank->trainer->last_applied(), Step(40));
    EXPECT_NE(rank->trainer->trouble().find("step"), std::string::npos);
    EXPECT_NE(rank->trainer->trouble().find("diverged"), std::string::npos);
    EXPECT_EQ(rank->trainer->trouble(), ranks[0]->trainer->trouble());
  }
  ASSERT_TRUE(store->Flush(Deadline::After(SteadyNow(), std::chrono::seconds(30))).ok());
  const std::optional<Snapshot> newest = store->LoadNewest().value();
  EXPECT_TRUE(newest.has_value() && newest->is_finite);

  spec.terminate_on_nan = false;
  const Gang free = MakeRanks(1, spec);
  RunMeeting(free, Epoch(1));
  ExpectAll(free, TrainerVerdict::kFinished);
  EXPECT_EQ(free[0]->trainer->last_applied(), Step(40));
}

// A smaller learning rate would help nobody who begins with such values.
TEST(Trainer, CheckpointThatIsNotFiniteIsNotGoneOnFrom) {
  TrainingSpec spec = MakeSpec(40);
  spec.loss = {LossType::kMeanSquaredError, false};
  spec.model.layers = {FlattenLayer{}, DenseLayer{1, Activation::kLinear}};
  spec.optimizer = SgdOptimizer{1000, 0, false};
  spec.terminate_on_nan = false;
  CheckpointFolder directory;
  const auto store = directory.Open(1);
  Gang diverged;
  diverged.push_back(MakeRank(spec, store.get()));
  RunMeeting(diverged, Epoch(1));
  ExpectAll(diverged, TrainerVerdict::kFinished);

  spec.terminate_on_nan = true;
  spec.length.count = 80;
  const auto second_store = directory.Open(2);
  Gang next;
  next.push_back(MakeRank(spec, second_store.get()));
  RunMeeting(next, Epoch(2));
  const Result<TrainerVerdict>& verdict = *next[0]->verdict;
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().code(), ErrorCode::kMismatch);
  EXPECT_NE(verdict.error().message().find(
                "the newest checkpoint, of step 40, contains numbers that are not finite"),
            std::string::npos)
      << verdict.error().message();
}

// Whatever the chief cannot write is no success, on no rank.
TEST(Trainer, LastCheckpointThatCannotBeWrittenIsNoSuccess) {
  CheckpointFolder directory;
  const auto store = directory.Open(1);
  Gang ranks;
  ranks.push_back(MakeRank(MakeSpec(12), store.get()));
  ranks.push_back(MakeRank(MakeSpec(12)));
  ranks[0]->after_step = [&](const StepReport& report) {
    if (report.step == Step(1)) {
      directory.MakeUnwritable();
    }
  };
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kNotSaved);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->trainer->last_applied(), Step(12)) << "failed checkpoints must not end the run";
    EXPECT_NE(rank->trainer->trouble().find("checkpoint of step 12"), std::string::npos)
        << rank->trainer->trouble();
  }
  EXPECT_GE(ranks[0]->checkpoints_failed, 1);  // those before may have been skipped for it
}

TEST(Trainer, StopWithoutItsCheckpointIsToldApart) {
  CheckpointFolder directory;
  const auto store = directory.Open(1);
  Gang ranks;
  ranks.push_back(MakeRank(MakeSpec(1000), store.get()));
  ranks.push_back(MakeRank(MakeSpec(1000)));
  ranks[0]->after_step = [&](const StepReport& report) {
    if (report.step == Step(2)) {
      directory.MakeUnwritable();
      ranks[0]->is_stop_requested = true;
      ranks[1]->is_stop_requested = true;
    }
  };
  RunMeeting(ranks, Epoch(1));
  ExpectAll(ranks, TrainerVerdict::kStoppedUnsaved);
}

// A counter that a damaged past left behind is told, and not only by a line of the log.
TEST(Trainer, LostSamplesAreNoSuccess) {
  CheckpointFolder directory;
  const auto store = directory.Open(1);
  SampleLedger ledger(kSampleCount);
  ledger.CloseEpoch(std::vector<int64_t>{3});  // expected once, used never
  const auto donor = MakeRank(MakeSpec(1));
  TrainingState state(kSampleCount);
  state.ledger = ledger;
  state.cursor.data_epoch = 1;
  ASSERT_TRUE(donor->engine->BringToHost(EnginePart::kState).ok());
  store->SaveAsync(TakeSnapshot(state, donor->engine->Tensors(), {7, 1, ""}));
  ASSERT_TRUE(store->Flush(Deadline::After(SteadyNow(), std::chrono::seconds(30))).ok());
  Gang ranks;
  ranks.push_back(MakeRank(MakeSpec(4), store.get()));
  RunMeeting(ranks, Epoch(2));
  ExpectAll(ranks, TrainerVerdict::kInexact);
  EXPECT_NE(ranks[0]->trainer->trouble().find("1 were lost and 0 were used"), std::string::npos)
      << ranks[0]->trainer->trouble();
}

// What the summary shows: one number, however many ranks there were and wherever a run was cut.
TEST(Trainer, TrainingLossIsTheSameAtAnyNumberOfRanksAndAfterAResume) {
  const Gang one = MakeRanks(1, MakeSpec(30));
  const Gang three = MakeRanks(3, MakeSpec(30));
  RunMeeting(one, Epoch(1));
  RunMeeting(three, Epoch(1));
  const double expected = one[0]->trainer->training_loss().value();
  for (const auto& rank : three) {
    EXPECT_NEAR(rank->trainer->training_loss().value(), expected, 1e-5 * expected);
    EXPECT_EQ(rank->trainer->training_loss(), three[0]->trainer->training_loss());
  }
  CheckpointFolder directory;
  for (const int64_t steps : {29, 30}) {
    const auto store = directory.Open(steps);
    Gang part;
    part.push_back(MakeRank(MakeSpec(steps), store.get()));
    RunMeeting(part, Epoch(steps));
    if (steps == 30) {
      EXPECT_EQ(part[0]->trainer->training_loss(), expected);
    }
  }
}

TEST(Trainer, RegressionHasNoAccuracy) {
  TrainingSpec spec = MakeSpec(3);
  spec.loss = {LossType::kMeanSquaredError, false};
  spec.model.layers = {FlattenLayer{}, DenseLayer{1, Activation::kLinear}};
  const Gang ranks = MakeRanks(1, spec);
  ranks[0]->after_step = [](const StepReport& report) {
    EXPECT_FALSE(report.epoch_accuracy.has_value());
  };
  RunMeeting(ranks, Epoch(1));
  EXPECT_FALSE(ranks[0]->trainer->test_result()->accuracy.has_value());
}

TEST(Trainer, RankWithOtherDataIsRefused) {
  const TrainingSpec spec = MakeSpec(5);
  Dataset other_train = MakeSamples(kSampleCount + 1);
  const Dataset dropped = other_train.SplitOffTail(kSampleCount);  // one sample further on
  const GangParts other{MakeTestEngine, &dropped, &TestSamples().test};
  Gang ranks = MakeRanks(1, spec);
  ranks.push_back(std::make_unique<GangRank>(spec, other));
  RunMeeting(ranks, Epoch(1));
  ASSERT_FALSE(ranks[1]->verdict->ok());
  EXPECT_NE(ranks[1]->verdict->error().ToString().find("data.crc32"), std::string::npos);
}

TEST(Trainer, DroppedRemainderWithoutAWholeBatchIsRefused) {
  TrainingSpec spec = MakeSpec(1);
  spec.global_batch_size = 51;
  spec.remainder = RemainderRule::kDrop;
  const auto rank = MakeRank(MakeSpec(1));
  const auto logger = MakeNullLogger();
  const Dataset train = MakeSamples(kSampleCount);
  const Dataset test;
  const auto made =
      Trainer::Make(spec, {rank->strategy.get(), &train, &test, nullptr, logger.get()}, {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().field(), "spec.training.globalBatchSize");
}

TEST(Snapshot, CutAnywhereIsRefused) {
  const auto rank = MakeRank(MakeSpec(1));
  TrainingState state(kSampleCount);
  const std::string bytes =
      EncodeSnapshotHead(TakeSnapshotHead(state, rank->engine->Tensors(), {7, 1, "{}"}));
  EXPECT_TRUE(DecodeSnapshotHead(bytes).ok());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(DecodeSnapshotHead(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(Snapshot, OfAnotherModelNamesTheTensor) {
  const auto rank = MakeRank(MakeSpec(1));
  TrainingSpec other = MakeSpec(1);
  other.model.layers = {FlattenLayer{}, DenseLayer{kClassCount + 1, Activation::kLinear}};
  const auto other_rank = MakeRank(other);
  TrainingState state(kSampleCount);
  const Snapshot snapshot = TakeSnapshot(state, other_rank->engine->Tensors(), {7, 1, "{}"});
  const Status restored = RestoreState(snapshot, 7, rank->engine->Tensors(), &state);
  ASSERT_FALSE(restored.ok());
  EXPECT_NE(restored.error().message().find("kernel"), std::string::npos)
      << restored.error().message();
}

}  // namespace
}  // namespace lockstep::runtime
