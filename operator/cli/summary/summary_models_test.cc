#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/summary/summary.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ModelRecord ModelWithResult(int64_t rank, int64_t step, std::optional<ModelResult> result) {
  ModelRecord model;
  model.rank = rank;
  model.step = Step(step);
  model.steps_total = 15;
  model.result = result;
  return model;
}

ModelRecord Unknown(int64_t rank) {
  ModelRecord model;
  model.rank = rank;
  return model;
}

RunSummary OfTwoModels() {
  RunSummary summary;
  summary.is_training = true;
  summary.outcome = RunOutcome::kSucceeded;
  summary.loss = 0.25;
  summary.test_loss = 0.125;
  summary.test_accuracy = 0.9625;
  summary.steps = 15;
  summary.steps_total = 15;
  summary.models = {ModelWithResult(0, 15, ModelResult{0.5, 0.1875, 0.95}),
                    ModelWithResult(1, 15, ModelResult{0.0, 0.0625, 0.975})};
  return summary;
}

TEST(FormatSummary, SeveralModelsAreToldOneByOneBelowTheirMeans) {
  EXPECT_THAT(FormatSummary(OfTwoModels()),
              HasSubstr("  training loss 0.2500, mean of 2 models\n"
                        "  test accuracy 96.2 %, loss 0.1250, mean of 2 models\n"
                        "  model 0       15 of 15 steps; training loss 0.5000; test 95.0 %, loss "
                        "0.1875\n"
                        "  model 1       15 of 15 steps; training loss 0.0000; test 97.5 %, loss "
                        "0.0625\n"));
  EXPECT_THAT(FormatSummary(OfTwoModels()), HasSubstr("  steps         15 of 15\n"));
}

// With epochs, and samples that do not divide evenly among the ranks.
TEST(FormatSummary, ModelsOfUnequalLengthAreEachToldOfTheirOwn) {
  RunSummary summary = OfTwoModels();
  summary.models[1].step = Step(12);
  summary.models[1].steps_total = 12;
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("  steps         15 of 15, for the model with the most steps\n"));
  EXPECT_THAT(text, HasSubstr("  model 1       12 of 12 steps; "));
}

TEST(FormatSummary, WhatIsNotKnownOfAModelIsSaidToBeThat) {
  RunSummary summary = OfTwoModels();
  summary.outcome = RunOutcome::kFailed;
  summary.loss.reset();
  summary.test_loss.reset();
  summary.test_accuracy.reset();
  summary.models = {ModelWithResult(0, 7, std::nullopt),
                    ModelWithResult(1, 15, std::nullopt),
                    ModelWithResult(2, 0, std::nullopt),
                    ModelWithResult(3, 9, ModelResult{0.5, {}, {}}),
                    Unknown(4),
                    Unknown(5)};
  summary.models.back().result = ModelResult{0.5, 0.25, {}};
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("  model 0       7 of 15 steps; training loss unknown\n"));
  EXPECT_THAT(
      text,
      HasSubstr("  model 1       15 of 15 steps; training loss unknown; test results unknown\n"));
  EXPECT_THAT(text, HasSubstr("  model 2       0 of 15 steps\n"));
  EXPECT_THAT(text, HasSubstr("  model 3       9 of 15 steps; training loss 0.5000\n"));
  EXPECT_THAT(text, HasSubstr("  model 4       nothing is known about this model\n"));
  EXPECT_THAT(text,
              HasSubstr("  model 5       all steps; training loss 0.5000; test loss 0.2500\n"));
  EXPECT_THAT(text, Not(HasSubstr("mean of")));
}

TEST(FormatSummary, ModelsOfWhichNothingIsKnownAreOneLine) {
  RunSummary summary = OfTwoModels();
  summary.models = {Unknown(0), Unknown(1)};
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("  models        nothing is known about the 2 models"));
}

// The run began with models that were done, each after as many steps as it has.
TEST(FormatSummary, ModelsThatWereAllDoneHadNothingToTrain) {
  RunSummary summary = OfTwoModels();
  summary.models[1].step = Step(12);
  summary.models[1].steps_total = 12;
  summary.models[0].first_step = Step(12);
  summary.models[1].first_step = Step(12);
  EXPECT_FALSE(HadNothingToTrain(summary));
  summary.models[0].first_step = Step(15);
  EXPECT_TRUE(HadNothingToTrain(summary));
}

TEST(FormatSummary, ModelsThatWereNotTestedHaveTheirTrainingLossAlone) {
  RunSummary summary = OfTwoModels();
  summary.models = {ModelWithResult(0, 15, ModelResult{0.5, {}, {}}),
                    ModelWithResult(1, 15, ModelResult{{}, 0.25, {}})};
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("  model 0       15 of 15 steps; training loss 0.5000\n"));
  EXPECT_THAT(
      text,
      HasSubstr("  model 1       15 of 15 steps; training loss not a finite number; test loss "
                "0.2500\n"));
}

TEST(FormatSummary, CheckpointsOfModelsThatAreNotEquallyFarAreToldFromTheLowest) {
  RunSummary summary = OfTwoModels();
  summary.checkpoint_directory = "/c";
  summary.last_checkpoint_step = Step(1031);
  summary.newest_checkpoints = {{Step(1031), "", 0}, {Step(672), "", 1}};
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("/c, newest of steps 672 to 1031\n"));
}

// It begins at step 0 where the run goes on.
TEST(FormatSummary, ModelWithoutACheckpointIsNamed) {
  RunSummary summary = OfTwoModels();
  summary.checkpoint_directory = "/c";
  summary.last_checkpoint_step = Step(600);
  summary.newest_checkpoints = {{Step(600), "", 1}};
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("/c, newest of step 600, no checkpoint of model 0\n"));
}

TEST(FormatSummary, SamplesOfModelsThatDidNotTellAreMissed) {
  RunSummary summary = OfTwoModels();
  summary.samples = SampleCounts{800, 800, 0, 0};
  summary.models_uncounted = 1;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("800 used, 0 lost, 0 repeated, without the samples of 1 model\n"));
}

TEST(FormatSummary, OneModelIsNoModelAmongOthers) {
  RunSummary summary = OfTwoModels();
  summary.models.clear();
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("model")));
}

TEST(EncodeSummary, ModelsCarryTheirRanks) {
  RunSummary summary = OfTwoModels();
  summary.models[1].result->test_loss = std::numeric_limits<double>::infinity();
  summary.models.push_back(Unknown(2));
  EXPECT_EQ(DumpJson(EncodeSummary(summary)["models"]),
            R"([{"rank":0,"steps":15,"stepsTotal":15,"firstStep":null,"hasResult":true,)"
            R"("trainingLoss":0.5,"testLoss":0.1875,"testAccuracy":0.95},)"
            R"({"rank":1,"steps":15,"stepsTotal":15,"firstStep":null,"hasResult":true,)"
            R"("trainingLoss":0.0,"testLoss":null,"testAccuracy":0.975},)"
            R"({"rank":2,"steps":null,"stepsTotal":null,"firstStep":null,"hasResult":false,)"
            R"("trainingLoss":null,"testLoss":null,"testAccuracy":null}])");
}

}  // namespace
}  // namespace lockstep::control
