#include "trainer-runtime/train/fingerprint.h"

#include <functional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/training/state_fingerprint.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

Dataset SamplesFrom(uint8_t first_value, int64_t count = 4) {
  IdxTensor images{{count, 1}, std::vector<uint8_t>(static_cast<std::size_t>(count), 1)};
  images.values[0] = first_value;
  IdxTensor labels{{count}, std::vector<uint8_t>(static_cast<std::size_t>(count), 0)};
  return Dataset::Make(std::move(images), std::move(labels), 1, "samples").value();
}

TrainingSpec SavedSpec() {
  TrainingSpec spec;
  spec.seed = 7;
  spec.model.input_shape = {1};
  spec.model.layers = {DenseLayer{4, Activation::kRelu}, DenseLayer{2}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  return spec;
}

Status AfterChange(const std::function<void(TrainingSpec*)>& change) {
  TrainingSpec other = SavedSpec();
  change(&other);
  const Dataset train = SamplesFrom(9);
  return CompareFingerprints(MakeFingerprint(SavedSpec(), train), MakeFingerprint(other, train));
}

TEST(Fingerprint, WhatChangesTheMeaningOfAStateIsRefusedWithBothValues) {
  const std::vector<std::pair<std::function<void(TrainingSpec*)>, const char*>> cases = {
      {[](TrainingSpec* s) { s->seed = 8; },
       "spec.training.seed: 8 found, the saved state was made with 7"},
      {[](TrainingSpec* s) { s->remainder = RemainderRule::kDrop; },
       "spec.training.remainder: \"Drop\" found, the saved state was made with \"Keep\""},
      {[](TrainingSpec* s) { s->dataset.shuffle = false; },
       "spec.training.dataset.shuffle: false found, the saved state was made with true"},
      {[](TrainingSpec* s) { s->dataset.scale = 0.5; }, "spec.training.dataset.scale: 0.5 found"},
      {[](TrainingSpec* s) {
         s->model.layers[0] = DenseLayer{4, Activation::kSigmoid};
       },
       "spec.training.model.layers[0].activation: \"sigmoid\" found, the saved state was made "
       "with \"relu\""},
      {[](TrainingSpec* s) { s->model.layers.push_back(DropoutLayer{0.5}); },
       "spec.training.model.layerCount: 3 found, the saved state was made with 2"},
      {[](TrainingSpec* s) { s->loss.type = LossType::kCategoricalCrossentropy; },
       "spec.training.loss.type: \"CategoricalCrossentropy\" found"},
      {[](TrainingSpec* s) {
         s->loss = {LossType::kMeanSquaredError, false};
       },
       "spec.training.loss.fromLogits: nothing found, the saved state was made with true"},
      {[](TrainingSpec* s) { s->optimizer = SgdOptimizer{}; },
       "spec.training.optimizer.type: \"SGD\" found, the saved state was made with \"Adam\""},
  };
  for (const auto& [change, says] : cases) {
    const Status status = AfterChange(change);
    ASSERT_FALSE(status.ok()) << says;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message(), HasSubstr(says));
  }
}

TEST(Fingerprint, WhatARunMayGoOnWithIsNotCompared) {
  const std::vector<std::function<void(TrainingSpec*)>> changes = {
      [](TrainingSpec* s) {
        s->length = {LengthUnit::kSteps, 77};
      },
      [](TrainingSpec* s) { s->global_batch_size = 5; },
      [](TrainingSpec* s) {
        s->optimizer = AdamOptimizer{0.5, 0.8, 0.9, 1e-6};
      },
      [](TrainingSpec* s) { s->checkpoint.every_steps = 1; },
      [](TrainingSpec* s) { s->communication.bytes_per_pack = 1 << 20; },
      [](TrainingSpec* s) {
        s->dataset.train = {"moved", "elsewhere"};
      },
      [](TrainingSpec* s) { s->terminate_on_nan = false; },
      [](TrainingSpec* s) { s->precision = Precision::kFloat16; },
      [](TrainingSpec* s) { s->gradient_clip_norm = 1; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_TRUE(AfterChange(changes[i]).ok()) << i;
  }
}

TEST(Fingerprint, OtherSamplesAreRefusedByNumberAndByContent) {
  const std::string saved = MakeFingerprint(SavedSpec(), SamplesFrom(9));
  EXPECT_THAT(
      CompareFingerprints(saved, MakeFingerprint(SavedSpec(), SamplesFrom(9, 5))).error().message(),
      HasSubstr("data.samples: 5 found, the saved state was made with 4"));
  EXPECT_THAT(
      CompareFingerprints(saved, MakeFingerprint(SavedSpec(), SamplesFrom(8))).error().message(),
      HasSubstr("data.crc32: "));
}

// The state of one of several models belongs to one rank of one number of ranks.
TEST(Fingerprint, OtherPartOfTheSamplesIsRefusedWithBoth) {
  const Dataset whole = SamplesFrom(9);
  const std::string saved = MakeFingerprint(SavedSpec(), whole.Part(1, 2));
  const auto found = [&](const Dataset& train) {
    return CompareFingerprints(saved, MakeFingerprint(SavedSpec(), train)).error().message();
  };
  EXPECT_THAT(found(whole.Part(1, 3)),
              HasSubstr("number of ranks: 3 found, the saved state was made with 2"));
  EXPECT_THAT(found(whole), HasSubstr("data.part: nothing found"));
  EXPECT_TRUE(CompareFingerprints(saved, MakeFingerprint(SavedSpec(), whole.Part(1, 2))).ok());
}

TEST(Fingerprint, AbsentOrYoungerFieldsAreNotCompared) {
  const std::string mine = MakeFingerprint(SavedSpec(), SamplesFrom(9));
  EXPECT_TRUE(CompareFingerprints("", mine).ok());
  EXPECT_TRUE(CompareFingerprints(R"({"seed": 7})", mine).ok());
  EXPECT_EQ(CompareFingerprints("[", mine).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace lockstep::runtime
