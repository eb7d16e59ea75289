#include "trainer-runtime/data/label_check.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

IdxTensor Table(std::vector<int64_t> shape, std::vector<uint8_t> values) {
  return {std::move(shape), std::move(values)};
}

Dataset Labelled(const std::vector<uint8_t>& labels) {
  const auto count = static_cast<int64_t>(labels.size());
  return Dataset::Make(Table({count, 1}, labels), Table({count}, labels), 1, "images").value();
}

TrainingSpec Spec(int64_t outputs, LossType loss) {
  TrainingSpec spec;
  spec.model.input_shape = {1};
  spec.model.layers.emplace_back(DenseLayer{outputs});
  spec.loss.type = loss;
  spec.dataset.train = {"images", "labels"};
  return spec;
}

TEST(CheckLabels, ClassWithoutAnOutputIsSaidWithItsFileAndSample) {
  DatasetSplits splits{Labelled({0, 2, 1, 0}), {}};
  EXPECT_TRUE(CheckLabels(Spec(3, LossType::kSparseCategoricalCrossentropy), splits).ok());
  const Status refused = CheckLabels(Spec(2, LossType::kSparseCategoricalCrossentropy), splits);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message(),
            "labels: the label of sample 1 is 2, expected a class from 0 to 1 for the model's 2 "
            "outputs");
}

TEST(CheckLabels, TestSampleOfTheSameFileHasItsNumberThere) {
  DatasetSplits splits{Labelled({0, 1, 1, 0, 7}), {}};
  splits.test = splits.train.SplitOffTail(2);
  const Status refused = CheckLabels(Spec(2, LossType::kCategoricalCrossentropy), splits);
  EXPECT_TRUE(refused.error().message().starts_with("labels: the label of sample 4 is 7, "));
}

TEST(CheckLabels, TestFileIsNamed) {
  TrainingSpec spec = Spec(2, LossType::kSparseCategoricalCrossentropy);
  spec.dataset.test = IdxFiles{"other-images", "other-labels"};
  const Status refused = CheckLabels(spec, {Labelled({0, 1}), Labelled({2})});
  EXPECT_TRUE(refused.error().message().starts_with("other-labels: the label of sample 0 is 2, "));
}

TEST(CheckLabels, LabelThatIsNoProbabilityIsSaidWithItsFileAndSample) {
  DatasetSplits splits{Labelled({0, 1, 1, 0, 7}), {}};
  const TrainingSpec spec = Spec(1, LossType::kBinaryCrossentropy);
  const std::string expected =
      "labels: the label of sample 4 is 7, expected a number from 0 to 1: BinaryCrossentropy reads "
      "probabilities";
  EXPECT_EQ(CheckLabels(spec, splits).error().message(), expected);
  splits.test = splits.train.SplitOffTail(2);
  EXPECT_EQ(CheckLabels(spec, splits).error().message(), expected) << "among the test samples";
  EXPECT_TRUE(CheckLabels(spec, {Labelled({0, 1}), Labelled({1})}).ok());
}

TEST(CheckLabels, NumbersThatAreNoClassesAreLeftToTheLoss) {
  const DatasetSplits splits{Labelled({0, 200}), {}};
  EXPECT_TRUE(CheckLabels(Spec(1, LossType::kMeanSquaredError), splits).ok());
  EXPECT_TRUE(CheckLabels(Spec(1, LossType::kCategoricalCrossentropy), splits).ok());
}

}  // namespace
}  // namespace lockstep::runtime
