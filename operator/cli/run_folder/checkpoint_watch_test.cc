#include "operator/cli/run_folder/checkpoint_watch.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void Tell(CheckpointWatch* watch,
          const CheckpointStatus& checkpoints,
          const std::string& pod = "job-worker-0") {
  watch->Report(pod, checkpoints, Step(40));
}

TEST(CheckpointWatch, RestoredStepIsToldOnceForEachProcess) {
  CheckpointWatch watch({{Step(20), "", {}}});
  Tell(&watch, {0, 0, 0, "", Step(20)});
  Tell(&watch, {1, 0, 0, "", Step(20)});
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training resumed from the checkpoint of step 20"}));
  Tell(&watch, {0, 0, 0, "", Step(60)}, "job-worker-0-r1");
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training resumed from the checkpoint of step 60"}));
  EXPECT_EQ(watch.Tally().restored_step, Step(20));
}

TEST(CheckpointWatch, CheckpointOfItsOwnIsNotWhatARunBeganWith) {
  CheckpointWatch fresh;
  Tell(&fresh, {0, 0, 0, "", Step(40)}, "job-worker-0-r1");
  EXPECT_EQ(fresh.Tally().restored_step, std::nullopt);
  CheckpointWatch resumed({{Step(20), "", {}}});
  Tell(&resumed, {0, 0, 0, "", Step(40)}, "job-worker-0-r1");
  EXPECT_EQ(resumed.Tally().restored_step, std::nullopt);
}

TEST(CheckpointWatch, OlderCheckpointThanThereIsIsAWarning) {
  CheckpointWatch watch({{Step(348), "", {}}});
  Tell(&watch, {0, 0, 0, "", Step(200)});
  EXPECT_THAT(watch.TakeRemarks(),
              ElementsAre(CheckpointRemark{
                  true,
                  "training resumed from the checkpoint of step 200: the checkpoint of step 348 "
                  "cannot be used; the log of worker-0 says why"}));
}

ModelsOfPods ThreeModels() {
  return {{{Role::kWorker, 0}, {0}}, {{Role::kWorker, 1}, {1}}, {{Role::kWorker, 2}, {2}}};
}

// Models of their own were stopped each at a step of its own.
TEST(CheckpointWatch, ModelThatGoesOnFromItsOwnNewestIsNoWarning) {
  CheckpointWatch watch({{Step(672), "", 0}, {Step(782), "", 1}, {Step(1031), "", 2}},
                        ThreeModels());
  watch.Report("job-worker-2", {0, 0, 0, "", Step(1031)}, std::nullopt);
  watch.Report("job-worker-0", {0, 0, 0, "", Step(672)}, std::nullopt);
  EXPECT_EQ(watch.Tally().restored_step, std::nullopt) << "the third may begin at the beginning";
  watch.Report("job-worker-1", {0, 0, 0, "", Step(782)}, std::nullopt);
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "model 2 resumed from the checkpoint of step 1031"},
                  CheckpointRemark{false, "model 0 resumed from the checkpoint of step 672"},
                  CheckpointRemark{false, "model 1 resumed from the checkpoint of step 782"}));
  EXPECT_EQ(watch.Tally().restored_step, Step(672));
}

TEST(CheckpointWatch, ModelsThatBeginAtTheBeginningAreNamedOnceBesideThoseThatGoOn) {
  CheckpointWatch watch({{Step(672), "", 1}}, ThreeModels());
  watch.Report("job-worker-1", {0, 0, 0, "", Step(672)}, std::nullopt);
  watch.Report("job-worker-1-r1", {0, 0, 0, "", Step(672)}, std::nullopt);
  const std::vector<CheckpointRemark> remarks = watch.TakeRemarks();
  ASSERT_EQ(remarks.size(), 3U);
  EXPECT_EQ(
      remarks[0],
      (CheckpointRemark{true, "models 0 and 2 start at step 0, because they have no checkpoint"}));
}

TEST(CheckpointWatch, ModelThatBeginsAtTheBeginningIsNamedAlsoWhereItsPodHasSeveral) {
  CheckpointWatch watch({{Step(60), "", 0}, {Step(60), "", 2}, {Step(80), "", 3}},
                        {{{Role::kWorker, 0}, {0, 1}}, {{Role::kWorker, 1}, {2, 3}}});
  watch.Report("job-worker-0", {0, 0, 0, "", Step(60)}, std::nullopt);
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(
          CheckpointRemark{true, "model 1 starts at step 0, because it has no checkpoint"},
          CheckpointRemark{false, "a model of worker-0 resumed from the checkpoint of step 60"}));
}

TEST(CheckpointWatch, ModelWhoseNewestCannotBeUsedIsNamed) {
  CheckpointWatch watch({{Step(672), "", 0}, {Step(782), "", 1}}, ThreeModels());
  watch.Report("job-worker-0", {0, 0, 0, "", Step(672)}, Step(1200));
  watch.Report("job-worker-1", {0, 0, 0, "", Step(600)}, std::nullopt);
  watch.Report("job-worker-0-r1", {0, 0, 0, "", Step(1000)}, std::nullopt);
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{true, "model 2 starts at step 0, because it has no checkpoint"},
                  CheckpointRemark{false, "model 0 resumed from the checkpoint of step 672"},
                  CheckpointRemark{true,
                                   "model 1 resumed from the checkpoint of step 600: the "
                                   "checkpoint of step 782 cannot be used; the log of "
                                   "worker-1 says why"},
                  CheckpointRemark{true,
                                   "model 0 resumed from the checkpoint of step 1000: the "
                                   "checkpoint of step 1200 cannot be used; the log of "
                                   "worker-0 says why"}));
}

// It does not say which of its models it speaks of.
TEST(CheckpointWatch, PodWithSeveralModelsIsWarnedOfWhereTheNewestOfNoneIsUsed) {
  const std::vector<FoundCheckpoint> before = {{Step(60), "", 0}, {Step(80), "", 1}};
  const ModelsOfPods models = {{{Role::kWorker, 0}, {0, 1}}};
  CheckpointWatch whole(before, models);
  whole.Report("job-worker-0", {0, 0, 0, "", Step(60)}, Step(100));
  whole.Report("job-worker-0-r1", {0, 0, 0, "", Step(90)}, std::nullopt);
  EXPECT_THAT(
      whole.TakeRemarks(),
      ElementsAre(
          CheckpointRemark{false, "a model of worker-0 resumed from the checkpoint of step 60"},
          CheckpointRemark{false, "a model of worker-0 resumed from the checkpoint of step 90"}));
  CheckpointWatch harmed(before, models);
  harmed.Report("job-worker-0", {0, 0, 0, "", Step(70)}, std::nullopt);
  EXPECT_THAT(harmed.TakeRemarks(),
              ElementsAre(CheckpointRemark{true,
                                           "a model of worker-0 resumed from the checkpoint of "
                                           "step 70: its newest checkpoint cannot be used; "
                                           "the log of worker-0 says why"}));
}

// Each failure names the file that it was.
TEST(CheckpointWatch, FullDiskIsOneWarningWhateverItsWords) {
  CheckpointWatch watch;
  Tell(&watch, {0, 1, 0, "write step-20: No space left on device", {}});
  Tell(&watch, {0, 2, 0, "write step-40: No space left on device", {}});
  EXPECT_EQ(watch.TakeRemarks().size(), 1U);
  EXPECT_EQ(watch.Tally().last_error, "write step-40: No space left on device");
}

TEST(CheckpointWatch, FullDiskIsOneWarningUntilItHasRoomAgain) {
  CheckpointWatch watch;
  Tell(&watch, {0, 1, 0, "No space left on device", {}});
  Tell(&watch, {0, 2, 0, "No space left on device", {}});
  EXPECT_THAT(watch.TakeRemarks(),
              ElementsAre(CheckpointRemark{
                  true, "checkpoint not written, training continues: No space left on device"}));
  EXPECT_EQ(watch.Tally().failed, 2);
  EXPECT_EQ(watch.Tally().last_error, "No space left on device");
  Tell(&watch, {1, 2, 0, "", {}});
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "checkpoints are written again, the newest at step 40"}));
  EXPECT_EQ(watch.Tally().last_error, "");
  Tell(&watch, {1, 3, 0, "No space left on device", {}});
  EXPECT_EQ(watch.TakeRemarks().size(), 1U);
}

// One that fails before anybody has asked it tells of its beginning with its last words.
TEST(CheckpointWatch, WhoHasEndedIsToldInTheSameWordsAsWhoTrains) {
  CheckpointWatch watch({{Step(20), "", {}}});
  watch.Report("job-worker-0", {0, 0, 0, "", Step(20)}, std::nullopt, /*are_last_words=*/true);
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training resumed from the checkpoint of step 20"}));
  EXPECT_EQ(watch.Tally().restored_step, Step(20));
}

// The job has failed, and others of its pods are in their grace.
TEST(CheckpointWatch, NothingGoesOnOnceTheJobHasEnded) {
  CheckpointWatch watch({{Step(20), "", {}}});
  watch.NoteEnd();
  Tell(&watch, {0, 0, 0, "", Step(20)});
  Tell(&watch, {0, 1, 0, "No space left on device", Step(20)});
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training resumed from the checkpoint of step 20"},
                  CheckpointRemark{true, "checkpoint not written: No space left on device"}));
}

TEST(CheckpointWatch, LastWordsDoNotSayThatTrainingGoesOn) {
  CheckpointWatch watch;
  watch.Report("job-worker-1", {0, 1, 0, "No space left on device", {}}, std::nullopt, true);
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{true, "checkpoint not written: No space left on device"}));
  EXPECT_EQ(watch.Tally().last_error_pod, "job-worker-1");
}

TEST(CheckpointWatch, SkippedOnesAreToldOnceAndCountedOverAllProcesses) {
  CheckpointWatch watch;
  Tell(&watch, {1, 0, 1, "", {}});
  Tell(&watch, {1, 0, 5, "", {}});
  Tell(&watch, {1, 0, 2, "", {}}, "job-worker-0-r1");
  EXPECT_EQ(watch.TakeRemarks().size(), 1U);
  EXPECT_EQ(watch.Tally().skipped, 7);
}

TEST(CheckpointWatch, ReportThatComesLateChangesNothing) {
  CheckpointWatch watch;
  Tell(&watch, {3, 1, 0, "No space left on device", {}});
  watch.TakeRemarks();
  Tell(&watch, {2, 0, 0, "", {}});
  EXPECT_EQ(watch.Tally().failed, 1);
  EXPECT_THAT(watch.TakeRemarks(), IsEmpty());
}

TEST(CheckpointWatch, RanksThatWriteNoneAreSilent) {
  CheckpointWatch watch;
  Tell(&watch, {}, "job-worker-1");
  EXPECT_THAT(watch.TakeRemarks(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
