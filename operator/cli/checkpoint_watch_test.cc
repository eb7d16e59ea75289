#include "operator/cli/checkpoint_watch.h"

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
  CheckpointWatch watch(Step(20));
  Tell(&watch, {0, 0, 0, "", Step(20)});
  Tell(&watch, {1, 0, 0, "", Step(20)});
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training goes on from the checkpoint of step 20"}));
  Tell(&watch, {0, 0, 0, "", Step(60)}, "job-worker-0-r1");
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training goes on from the checkpoint of step 60"}));
  EXPECT_EQ(watch.Tally().restored_step, Step(20));
}

TEST(CheckpointWatch, CheckpointOfItsOwnIsNotWhatARunBeganWith) {
  CheckpointWatch fresh;
  Tell(&fresh, {0, 0, 0, "", Step(40)}, "job-worker-0-r1");
  EXPECT_EQ(fresh.Tally().restored_step, std::nullopt);
  CheckpointWatch resumed(Step(20));
  Tell(&resumed, {0, 0, 0, "", Step(40)}, "job-worker-0-r1");
  EXPECT_EQ(resumed.Tally().restored_step, std::nullopt);
}

TEST(CheckpointWatch, OlderCheckpointThanThereIsIsAWarning) {
  CheckpointWatch watch(Step(348));
  Tell(&watch, {0, 0, 0, "", Step(200)});
  EXPECT_THAT(watch.TakeRemarks(),
              ElementsAre(CheckpointRemark{
                  true,
                  "training goes on from the checkpoint of step 200: that of step 348 cannot be "
                  "used; the log of worker 0 says why"}));
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
                  true, "checkpoint not written, training goes on: No space left on device"}));
  EXPECT_EQ(watch.Tally().failed, 2);
  EXPECT_EQ(watch.Tally().last_error, "No space left on device");
  Tell(&watch, {1, 2, 0, "", {}});
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "checkpoints are written again, that of step 40"}));
  EXPECT_EQ(watch.Tally().last_error, "");
  Tell(&watch, {1, 3, 0, "No space left on device", {}});
  EXPECT_EQ(watch.TakeRemarks().size(), 1U);
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
