#include "operator/cli/checkpoint_watch.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StatusDocument Report(const CheckpointStatus& checkpoints,
                      const std::string& pod = "job-worker-0") {
  StatusDocument document;
  document.pod = pod;
  document.last_checkpoint_step = Step(40);
  document.checkpoints = checkpoints;
  return document;
}

TEST(CheckpointWatch, RestoredStepIsToldOnceForEachProcess) {
  CheckpointWatch watch;
  watch.Report(Report({0, 0, 0, "", Step(20)}));
  watch.Report(Report({1, 0, 0, "", Step(20)}));
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training goes on from the checkpoint of step 20"}));
  watch.Report(Report({0, 0, 0, "", Step(60)}, "job-worker-0-r1"));
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "training goes on from the checkpoint of step 60"}));
  EXPECT_EQ(watch.Tally().restored_step, Step(20));
}

TEST(CheckpointWatch, FullDiskIsOneWarningUntilItHasRoomAgain) {
  CheckpointWatch watch;
  watch.Report(Report({0, 1, 0, "No space left on device", {}}));
  watch.Report(Report({0, 2, 0, "No space left on device", {}}));
  EXPECT_THAT(watch.TakeRemarks(),
              ElementsAre(CheckpointRemark{
                  true, "checkpoint not written, training goes on: No space left on device"}));
  EXPECT_EQ(watch.Tally().failed, 2);
  EXPECT_EQ(watch.Tally().last_error, "No space left on device");
  watch.Report(Report({1, 2, 0, "", {}}));
  EXPECT_THAT(
      watch.TakeRemarks(),
      ElementsAre(CheckpointRemark{false, "checkpoints are written again, that of step 40"}));
  EXPECT_EQ(watch.Tally().last_error, "");
  watch.Report(Report({1, 3, 0, "No space left on device", {}}));
  EXPECT_EQ(watch.TakeRemarks().size(), 1U);
}

TEST(CheckpointWatch, SkippedOnesAreToldOnceAndCountedOverAllProcesses) {
  CheckpointWatch watch;
  watch.Report(Report({1, 0, 1, "", {}}));
  watch.Report(Report({1, 0, 5, "", {}}));
  watch.Report(Report({1, 0, 2, "", {}}, "job-worker-0-r1"));
  EXPECT_EQ(watch.TakeRemarks().size(), 1U);
  EXPECT_EQ(watch.Tally().skipped, 7);
}

TEST(CheckpointWatch, RanksThatWriteNoneAreSilent) {
  CheckpointWatch watch;
  watch.Report(Report({}, "job-worker-1"));
  EXPECT_THAT(watch.TakeRemarks(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
