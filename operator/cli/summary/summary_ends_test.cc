#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/summary/summary.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

RunSummary FailedRun() {
  RunSummary summary;
  summary.outcome = RunOutcome::kFailed;
  summary.run_directory = "/runs/a";
  return summary;
}

PodRecord EndedPod(int index, int exit_code, int64_t when_ms) {
  PodRecord pod;
  pod.task = {Role::kWorker, index};
  pod.exit_code = exit_code;
  pod.ended = milliseconds(when_ms);
  return pod;
}

// The last words of the other blame the connection that it closed.
TEST(FormatSummary, RankThatLeftBeforeTheFirstFailureIsListed) {
  RunSummary summary;
  summary.pods = {EndedPod(0, 1, 5500), EndedPod(1, 0, 5000), EndedPod(2, 0, 6000)};
  summary.pods[0].message = "Connection closed by peer";
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  worker-0      exit code 1: Connection closed by peer\n"
                        "  worker-1      exit code 0, 0.50 s before the first failure\n"
                        "  restarts"));
}

TEST(FormatSummary, RanksThatAJobSucceededWithoutAreListed) {
  RunSummary summary;
  summary.outcome = RunOutcome::kSucceeded;
  summary.pods = {EndedPod(0, 0, 6000), EndedPod(1, 1, 500), EndedPod(0, 143, 6100)};
  summary.pods[1].message = "ValueError: boom";
  summary.pods[2].task.role = Role::kPs;
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("\n  worker-1      exit code 1: ValueError: boom\n  restarts"));
  EXPECT_THAT(text, Not(HasSubstr("ps-0")));
}

TEST(FormatSummary, EndWithoutOtherWordsIsToldOnce) {
  RunSummary summary;
  summary.pods = {EndedPod(0, 7, 0), EndedPod(1, 143, 0)};
  summary.pods[0].message = "exit code 7";
  summary.pods[1].message = "killed by SIGTERM";
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  worker-0      exit code 7\n  worker-1      killed by SIGTERM\n"));
}

TEST(FormatSummary, AfterAnErrorInTheInputTheWayOnBeginsWithMendingIt) {
  RunSummary summary = FailedRun();
  summary.is_training = true;
  summary.checkpoint_directory = "/runs/a/checkpoints";
  summary.last_checkpoint_step = Step(700);
  summary.pods = {EndedPod(0, 64, 0)};
  EXPECT_THAT(
      FormatSummary(summary),
      HasSubstr("  to continue   fix the cause above, then lockstep run --resume /runs/a\n"));
}

TEST(FormatSummary, CommandThatFailedTellsHowToGoOn) {
  RunSummary summary = FailedRun();
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("to continue   lockstep run --resume /runs/a; the files"));
  summary.pods = {EndedPod(0, 137, 0)};
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("fix the cause")));
  summary.pods = {EndedPod(0, 3, 0)};
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("fix the cause above, then lockstep run --resume /runs/a; the files"));
  summary.outcome = RunOutcome::kSucceeded;
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("to continue")));
}

TEST(FormatSummary, AfterARankThatLeftEarlyTheWayOnBeginsWithMendingIt) {
  RunSummary summary = FailedRun();
  summary.pods = {EndedPod(0, 75, 0), EndedPod(1, 0, 0)};
  summary.reason = "pod a-worker-1 (rank 1) left with exit code 0, cause program_exit; incidents";
  EXPECT_THAT(FormatSummary(summary), HasSubstr("fix the cause above, then lockstep"));
}

// The other crashed when it missed the rank: by its own exit alone it is worth another try.
TEST(FormatSummary, AfterARankThatLeftBeforeTheLastStepTheWayOnBeginsWithMendingIt) {
  RunSummary summary = FailedRun();
  summary.pods = {EndedPod(0, 134, 6000), EndedPod(1, 0, 4000)};
  summary.steps = 3;
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("fix the cause")));  // it may have been done
  summary.steps_total = 8;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  to continue   fix the cause above, then lockstep run --resume /runs/a"));
  summary.steps = 8;
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("fix the cause")));
  summary.steps = 3;
  summary.pods[1].ended = milliseconds(6500);
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("fix the cause")));
}

// An evaluator has no steps of its own to take.
TEST(FormatSummary, AfterAnEvaluatorThatLeftTheWayOnIsToTryAgain) {
  RunSummary summary = FailedRun();
  summary.pods = {EndedPod(0, 134, 6000), EndedPod(0, 0, 4000)};
  summary.pods[1].task.role = Role::kEvaluator;
  summary.steps = 3;
  summary.steps_total = 8;
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("fix the cause")));
}

}  // namespace
}  // namespace lockstep::control
