#include "trainer-runtime/train/test_job.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/engine/testing/fake_device_engine.h"

namespace lockstep::runtime {

Dataset MakeSamples(int64_t count) {
  IdxTensor images{{count, 1, 2}, {}};
  IdxTensor labels{{count}, {}};
  for (int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % kClassCount);
    images.values.push_back(static_cast<uint8_t>(label == 0 ? 200 + i % 50 : i % 50));
    images.values.push_back(static_cast<uint8_t>(label == 1 ? 200 + i % 50 : i % 50));
    labels.values.push_back(static_cast<uint8_t>(label));
  }
  return Dataset::Make(std::move(images), std::move(labels), 1.0 / 255, "samples").value();
}

TrainingSpec MakeSpec(int64_t step_count) {
  TrainingSpec spec;
  spec.seed = 7;
  spec.length = {LengthUnit::kSteps, step_count};
  spec.global_batch_size = 16;  // 50 samples: the fourth batch of an epoch has two
  spec.model.input_shape = {1, 2, 1};
  spec.model.layers = {FlattenLayer{}, DenseLayer{kClassCount, Activation::kLinear}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.optimizer = AdamOptimizer{0.05, 0.9, 0.999, 1e-7};
  spec.checkpoint.every_steps = 5;
  spec.communication.bytes_per_pack = 16;  // so that little models make many calls
  return spec;
}

Result<std::unique_ptr<Engine>> MakeTestEngine(const TrainingSpec& spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeReferenceEngine(spec));
  static const bool is_on_device = std::getenv("LOCKSTEP_TEST_ON_DEVICE") != nullptr;
  return is_on_device ? MakeFakeDeviceEngine(std::move(engine)) : std::move(engine);
}

GangParts Samples::Parts() const {
  return {.make_engine = MakeTestEngine, .train = &train, .test = &test};
}

const Samples& TestSamples() {
  static const Samples samples;
  return samples;
}

Gang MakeRanks(int count, const TrainingSpec& spec) {
  return MakeGang(count, spec, TestSamples().Parts());
}

std::unique_ptr<GangRank> MakeRank(const TrainingSpec& spec, CheckpointStore* checkpoints) {
  return std::make_unique<GangRank>(spec, TestSamples().Parts(), checkpoints);
}

CheckpointFolder::CheckpointFolder() {
  std::string pattern = testing::TempDir() + "lockstep-trainer-XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}

CheckpointFolder::~CheckpointFolder() {
  std::filesystem::remove_all(path_);
}

std::unique_ptr<CheckpointStore> CheckpointFolder::Open(int64_t epoch) {
  CheckpointStoreOptions options;
  options.directory = path_;
  options.writer = {"uid", Attempt(0), Epoch(epoch), Incarnation(0)};
  options.logger = logger_.get();
  options.clock = &clock_;
  auto store = CheckpointStore::Open(std::move(options)).value();
  EXPECT_TRUE(store->Claim(Epoch(epoch), Incarnation(0)).ok());
  return store;
}

void CheckpointFolder::MakeUnwritable() {
  std::filesystem::remove_all(path_);
  ASSERT_TRUE(WriteFileAtomically(path_, "in the way").ok());
}

}  // namespace lockstep::runtime
