#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/summary.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunSummary OfTwoModels() {
  RunSummary summary;
  summary.is_training = true;
  summary.outcome = RunOutcome::kSucceeded;
  summary.loss = 0.25;
  summary.test_loss = 0.125;
  summary.test_accuracy = 0.9625;
  summary.models = {{0.5, 0.1875, 0.95}, {0.0, 0.0625, 0.975}};
  return summary;
}

TEST(FormatSummary, SeveralModelsAreToldOneByOneBelowTheirMeans) {
  EXPECT_THAT(FormatSummary(OfTwoModels()),
              HasSubstr("  training loss 0.2500, mean of 2 models\n"
                        "  test accuracy 96.2 %, loss 0.1250, mean of 2 models\n"
                        "  model 0       training loss 0.5000; test 95.0 %, loss 0.1875\n"
                        "  model 1       training loss 0.0000; test 97.5 %, loss 0.0625\n"));
}

TEST(FormatSummary, ModelsThatWereNotTestedHaveTheirTrainingLossAlone) {
  RunSummary summary = OfTwoModels();
  summary.models = {{0.5, {}, {}}, {{}, 0.25, {}}};
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("  model 0       training loss 0.5000\n"));
  EXPECT_THAT(text,
              HasSubstr("  model 1       training loss not a finite number; test loss 0.2500\n"));
}

TEST(FormatSummary, CheckpointsOfModelsThatAreNotEquallyFarAreToldFromTheLowest) {
  RunSummary summary = OfTwoModels();
  summary.checkpoint_directory = "/c";
  summary.last_checkpoint_step = Step(1031);
  summary.lowest_checkpoint_step = Step(672);
  summary.steps = 1031;
  const std::string text = FormatSummary(summary);
  EXPECT_THAT(text, HasSubstr("/c, newest of steps 672 to 1031\n"));
  EXPECT_THAT(text, HasSubstr("  steps         1031, of the model that is furthest\n"));
}

TEST(FormatSummary, SamplesOfModelsThatDidNotTellAreMissed) {
  RunSummary summary = OfTwoModels();
  summary.samples = SampleCounts{800, 800, 0, 0};
  summary.models_uncounted = 1;
  EXPECT_THAT(FormatSummary(summary),
              HasSubstr("800 used, 0 lost, 0 repeated, without those of 1 model\n"));
}

TEST(FormatSummary, OneModelIsNoModelAmongOthers) {
  RunSummary summary = OfTwoModels();
  summary.models.clear();
  EXPECT_THAT(FormatSummary(summary), Not(HasSubstr("model")));
}

TEST(EncodeSummary, ModelsCarryTheirRanks) {
  RunSummary summary = OfTwoModels();
  summary.models[1].test_loss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(DumpJson(EncodeSummary(summary)["models"]),
            R"([{"rank":0,"trainingLoss":0.5,"testLoss":0.1875,"testAccuracy":0.95},)"
            R"({"rank":1,"trainingLoss":0.0,"testLoss":null,"testAccuracy":0.975}])");
}

}  // namespace
}  // namespace lockstep::control
