#include "trainer-runtime/engine/loss.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

struct LossCase {
  const char* name;
  LossSpec loss;
  std::vector<float> outputs;
  std::vector<float> labels;
  int64_t sample_count;
  double loss_sum;  // worked out by hand, or by the formula beside it
  int64_t correct_count;
};

std::vector<LossCase> Cases() {
  const double ln2 = std::log(2.0);
  return {
      {"mse averages outputs",
       {LossType::kMeanSquaredError, false},
       {1, 2, 3, 5},
       {1, 4, 0, 5},
       2,
       (0 + 4) / 2.0 + (9 + 0) / 2.0,
       2},
      {"binary from logits",
       {LossType::kBinaryCrossentropy, true},
       {0, 3, -2},
       {1, 1, 1},
       3,
       ln2 + std::log1p(std::exp(-3.0)) + std::log1p(std::exp(2.0)),
       1},
      {"binary from probabilities",
       {LossType::kBinaryCrossentropy, false},
       {0.5, 0.25},
       {1, 0},
       2,
       ln2 - std::log(0.75),
       1},
      {"sparse from logits",
       {LossType::kSparseCategoricalCrossentropy, true},
       {0, 0, 0, 0, 1, 2},
       {0, 1},
       2,
       std::log(3.0) + std::log(1 + std::exp(1.0) + std::exp(2.0)) - 1,
       1},
      {"sparse from probabilities",
       {LossType::kSparseCategoricalCrossentropy, false},
       {0.2f, 0.8f},
       {1},
       1,
       -std::log(0.8),
       1},
      {"categorical from one-hot logits",
       {LossType::kCategoricalCrossentropy, true},
       {0, 0, 0},
       {0, 0, 1},
       1,
       std::log(3.0),
       0},
      {"categorical from class numbers",
       {LossType::kCategoricalCrossentropy, true},
       {0, 0, 0},
       {2},
       1,
       std::log(3.0),
       0},
      {"categorical divides by the sum",
       {LossType::kCategoricalCrossentropy, false},
       {1, 3},
       {0, 1},
       1,
       -std::log(0.75),
       1},
  };
}

Predictions PredictionsOf(const LossCase& c) {
  return {.outputs = c.outputs,
          .labels = c.labels,
          .sample_count = c.sample_count,
          .output_width = static_cast<int64_t>(c.outputs.size()) / c.sample_count};
}

TEST(Loss, ValuesAndHitsAreKerass) {
  for (const LossCase& c : Cases()) {
    const auto result = ComputeLoss(c.loss, PredictionsOf(c), 1, {});
    ASSERT_TRUE(result.ok()) << c.name << ": " << result.error().ToString();
    EXPECT_NEAR(result->loss_sum, c.loss_sum, 1e-6) << c.name;
    EXPECT_EQ(result->correct_count, c.correct_count) << c.name;
  }
}

TEST(Loss, GradientsAgreeWithFiniteDifferencesAndScale) {
  for (LossCase c : Cases()) {
    std::vector<float> gradient(c.outputs.size());
    ASSERT_TRUE(ComputeLoss(c.loss, PredictionsOf(c), 0.5, gradient).ok()) << c.name;
    for (std::size_t i = 0; i < c.outputs.size(); ++i) {
      const float at = c.outputs[i];
      const float step = 1e-3f;
      c.outputs[i] = at + step;
      const double above = ComputeLoss(c.loss, PredictionsOf(c), 1, {}).value().loss_sum;
      c.outputs[i] = at - step;
      const double below = ComputeLoss(c.loss, PredictionsOf(c), 1, {}).value().loss_sum;
      c.outputs[i] = at;
      EXPECT_NEAR(gradient[i], 0.5 * (above - below) / (2 * step), 1e-3) << c.name << " " << i;
    }
  }
}

TEST(Loss, SaturatedLogitsStayFinite) {
  for (const LossType type :
       {LossType::kBinaryCrossentropy, LossType::kSparseCategoricalCrossentropy}) {
    const bool is_binary = type == LossType::kBinaryCrossentropy;
    const std::vector<float> outputs{-1000, 1000};
    const std::vector<float> labels = is_binary ? std::vector<float>{1, 0} : std::vector<float>{0};
    std::vector<float> gradient(2);
    const auto result = ComputeLoss({type, true},
                                    {.outputs = outputs,
                                     .labels = labels,
                                     .sample_count = is_binary ? 2 : 1,
                                     .output_width = is_binary ? 1 : 2},
                                    1,
                                    gradient);
    ASSERT_TRUE(result.ok());
    EXPECT_NEAR(result->loss_sum, 2000, 1e-6);
    EXPECT_NEAR(gradient[0], -1, 1e-6);
    EXPECT_NEAR(gradient[1], 1, 1e-6);
  }
}

TEST(Loss, ProbabilitiesAtTheEndsAreClippedAsInKeras) {
  const std::vector<float> outputs{0, 1};
  const std::vector<float> labels{1, 0};
  const auto result =
      ComputeLoss({LossType::kBinaryCrossentropy, false},
                  {.outputs = outputs, .labels = labels, .sample_count = 2, .output_width = 1},
                  1,
                  {});
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->loss_sum, -2 * std::log(1e-7), 1e-5);
}

TEST(Loss, NoSamplesIsZero) {
  const auto result = ComputeLoss({}, Predictions{}, 1, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->loss_sum, 0);
  EXPECT_EQ(result->correct_count, 0);
}

TEST(Loss, BadLabelsAreNamed) {
  struct BadCase {
    LossType type;
    std::vector<float> labels;
    const char* expected;
  };

  const BadCase cases[] = {
      {LossType::kSparseCategoricalCrossentropy,
       {0, 3},
       "label of sample 1 of the batch is 3, expected"},
      {LossType::kSparseCategoricalCrossentropy, {-1, 0}, "expected a class from 0 to 2"},
      {LossType::kSparseCategoricalCrossentropy,
       {0.5, 0},
       "label of sample 0 of the batch is 0.5, expected"},
      {LossType::kSparseCategoricalCrossentropy,
       {0, 0, 0, 1},
       "needs 1 label values for each sample"},
      {LossType::kMeanSquaredError, {0, 1}, "needs 3 label values for each sample, got 2"},
      {LossType::kBinaryCrossentropy,
       {0, 1, 0, 1, 0, 9},
       "label of sample 1 of the batch is 9, expected"},
      {LossType::kBinaryCrossentropy, {0, 1, -0.5, 1, 0, 1}, "expected a number from 0 to 1"},
      {LossType::kCategoricalCrossentropy,
       {0, 1, 0, 1},
       "needs 3 label values for each sample, got 4"},
  };
  const std::vector<float> outputs(6);
  for (const BadCase& c : cases) {
    const auto result =
        ComputeLoss({c.type, true},
                    {.outputs = outputs, .labels = c.labels, .sample_count = 2, .output_width = 3},
                    1,
                    {});
    ASSERT_FALSE(result.ok()) << c.expected;
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message(), HasSubstr(c.expected));
  }
}

TEST(Loss, AbsorbsOnlyTheActivationThatBelongsToIt) {
  using enum LossType;
  EXPECT_TRUE(AbsorbActivation({kBinaryCrossentropy, false}, Activation::kSigmoid)->from_logits);
  EXPECT_TRUE(
      AbsorbActivation({kSparseCategoricalCrossentropy, false}, Activation::kSoftmax)->from_logits);
  EXPECT_FALSE(AbsorbActivation({kMeanSquaredError, false}, Activation::kSigmoid));
  EXPECT_FALSE(AbsorbActivation({kBinaryCrossentropy, false}, Activation::kSoftmax));
  EXPECT_FALSE(AbsorbActivation({kBinaryCrossentropy, true}, Activation::kSigmoid));
  EXPECT_FALSE(AbsorbActivation({kBinaryCrossentropy, false}, Activation::kLinear)->from_logits);
}

}  // namespace
}  // namespace lockstep::runtime
