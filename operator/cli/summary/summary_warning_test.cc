#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/summary/summary.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunSummary Trained() {
  RunSummary summary;
  summary.outcome = RunOutcome::kSucceeded;
  summary.is_training = true;
  summary.steps = 8;
  summary.steps_total = 8;
  summary.run_directory = "/runs/a";
  summary.checkpoint_directory = "/runs/a/checkpoints";
  summary.last_checkpoint_step = Step(8);
  return summary;
}

// With spec.training.terminateOnNaN: false the run is a success.
TEST(FormatSummary, LossThatIsNoNumberIsSaidWithWhatItMakesOfTheSavedModel) {
  RunSummary summary = Trained();
  summary.history = {{0, 8, 64, 0.5, 0.5, 1.0}};
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("finite")));
  summary.history = {{0, 8, 64, std::nullopt, 0.5, 1.0}};
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  training loss not a finite number\n"));
  EXPECT_THAT(
      FormatSummary(summary),
      HasSubstr("  warning       the loss is not a finite number, and the saved model probably has "
                "values that are not finite; to continue anyway, set "
                "spec.training.terminateOnNaN: false\n"));
}

TEST(FormatSummary, TrainingThatSkippedAllStepsLearntNothingAndItsModelIsFinite) {
  RunSummary summary = Trained();
  summary.history = {{0, 8, 64, std::nullopt, 0.5, 1.0}};
  summary.steps = 8;
  summary.steps_skipped = 7;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("the saved model probably has values that are not finite"));
  summary.steps_skipped = 8;
  EXPECT_THAT(FormatSummary(summary), HasSubstr("nothing was learned: all steps were skipped"));
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("probably")));
}

TEST(FormatSummary, OneModelOfSeveralWhoseLossIsNoNumberIsAWarning) {
  RunSummary summary = Trained();
  summary.models.resize(2);
  summary.models[0].result = ModelResult{0.5, 0.5, 0.5};
  summary.models[1].result = ModelResult{0.25, 0.5, 0.5};
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("warning")));
  summary.models[1].result->training_loss.reset();
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  warning       the loss is not a finite"));
}

// Of a program with a mistake every worker says the same.
TEST(FormatSummary, ReasonThatSeveralHaveIsSaidOnceWithTheirNumber) {
  RunSummary summary;
  summary.outcome = RunOutcome::kFailed;
  for (int index = 0; index < 4; ++index) {
    PodRecord pod;
    pod.task = {Role::kWorker, index};
    pod.exit_code = 3;
    pod.message = index == 2 ? "no such file" : "no such option";
    summary.pods.push_back(pod);
  }
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  worker-0      exit code 3: no such option; likewise 2 others\n"
                        "  worker-2      exit code 3: no such file\n"
                        "  restarts "));
}

TEST(Summary, StepsThatChangedNothingAreSaid) {
  RunSummary summary = Trained();
  EXPECT_THAT(FormatSummary(summary), ::testing::Not(HasSubstr("skipped")));
  EXPECT_EQ(EncodeSummary(summary)["stepsSkipped"], 0);
  summary.steps_skipped = 3;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("8 of 8, 3 skipped (gradients too large for Float16)"));
  EXPECT_EQ(EncodeSummary(summary)["stepsSkipped"], 3);
  summary.is_training = false;
  EXPECT_TRUE(EncodeSummary(summary)["stepsSkipped"].is_null());
}

// No training stood still in the time that they took, so it is in no other figure.
TEST(Summary, StepsThatWereTakenAgainAreSaid) {
  RunSummary summary = Trained();
  summary.recoveries.emplace_back();
  EXPECT_THAT(FormatSummary(summary), HasSubstr("  time lost     0.00 s of 0.00 s\n"));
  EXPECT_EQ(EncodeSummary(summary)["stepsRepeated"], 0);
  summary.steps_repeated = 140;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  time lost     0.00 s of 0.00 s, and 140 steps had to be repeated\n"));
  EXPECT_EQ(EncodeSummary(summary)["stepsRepeated"], 140);
  summary.is_training = false;
  EXPECT_TRUE(EncodeSummary(summary)["stepsRepeated"].is_null());
}

}  // namespace
}  // namespace lockstep::control
