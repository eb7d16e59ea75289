// A small model trained by two workers over three ps, with ps and workers that die on the way.

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/engine/reference_engine.h"
#include "trainer-runtime/ps/testing/ps_gang.h"
#include "trainer-runtime/ps/update_rule.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kClassCount = 3;
constexpr int64_t kSampleCount = 48;

TrainingSpec Spec(const OptimizerSpec& optimizer) {
  TrainingSpec spec;
  spec.seed = 7;
  spec.model.input_shape = {1, 2, 1};
  spec.model.layers = {FlattenLayer{}, DenseLayer{kClassCount, Activation::kLinear}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.optimizer = optimizer;
  return spec;
}

// Two pixels; which one is brighter, if any, is the class.
struct Samples {
  Samples() {
    for (int64_t i = 0; i < kSampleCount; ++i) {
      const auto label = static_cast<int>(i % kClassCount);
      const float dark = static_cast<float>(i % 5) / 25;
      inputs.push_back(label == 0 ? 1 - dark : dark);
      inputs.push_back(label == 1 ? 1 - dark : dark);
      labels.push_back(static_cast<float>(label));
    }
  }

  std::vector<float> inputs;
  std::vector<float> labels;
};

Batch All(const Samples& samples) {
  return {samples.inputs, samples.labels, kSampleCount};
}

std::vector<TensorView> Parameters(Engine* engine) {
  std::vector<TensorView> parameters;
  for (const TensorView& tensor : engine->Tensors()) {
    if (tensor.kind == TensorKind::kParameter) {
      parameters.push_back(tensor);
    }
  }
  return parameters;
}

std::vector<float> Read(Engine* engine) {
  std::vector<float> all;
  for (const TensorView& tensor : Parameters(engine)) {
    all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  }
  return all;
}

void Write(std::span<const float> all, Engine* engine) {
  for (const TensorView& tensor : Parameters(engine)) {
    std::copy_n(all.begin(), tensor.data.size(), tensor.data.begin());
    all = all.subspan(tensor.data.size());
  }
}

double MeanLoss(Engine* engine) {
  const Samples samples;
  return engine->Evaluate(All(samples)).value().loss_sum / kSampleCount;
}

PsLimits Soon() {
  return {Deadline::After(SteadyNow(), seconds(30)), {}};
}

// So many steps of one worker on half of the samples.
void Train(PsClient* client, const TrainingSpec& spec, int worker, int step_count) {
  const std::unique_ptr<Engine> engine = MakeReferenceEngine(spec).value();
  const Samples samples;
  const auto half = static_cast<std::size_t>(kSampleCount / 2);
  const auto first = static_cast<std::size_t>(worker) * half;
  const Batch batch{std::span(samples.inputs).subspan(first * 2, half * 2),
                    std::span(samples.labels).subspan(first, half),
                    kSampleCount / 2};
  std::vector<float> parameters = Read(engine.get());
  for (int step = 0; step < step_count; ++step) {
    const Result<PulledCounts> pulled = client->Pull(parameters, {}, {}, Soon());
    ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
    Write(parameters, engine.get());
    ASSERT_TRUE(engine->ComputeGradients(batch, {2.0 / kSampleCount, 0, 0}).ok());
    const Status pushed = client->Push(engine->Gradients(), {pulled->sequence + 1, {}}, Soon());
    ASSERT_TRUE(pushed.ok()) << pushed.error().ToString();
  }
}

class PsTraining : public ::testing::TestWithParam<OptimizerSpec> {};

TEST_P(PsTraining, ModelIsLearnedThoughPsAndAWorkerDie) {
  const TrainingSpec spec = Spec(GetParam());
  const std::unique_ptr<Engine> engine = MakeReferenceEngine(spec).value();
  testing::PsGangOptions options;
  options.worker_count = 2;
  options.max_staleness = 4;
  options.slot_count = static_cast<int>(OptimizerSlotNames(spec.optimizer).size());
  options.rule = MakeUpdateRule(spec.optimizer);
  for (const TensorView& tensor : Parameters(engine.get())) {
    options.element_counts.push_back(static_cast<int64_t>(tensor.data.size()));
  }
  testing::PsGang gang(options);
  const std::vector<float> begin = Read(engine.get());
  const std::vector<float> slots(begin.size() * static_cast<std::size_t>(options.slot_count), 0);
  const double loss_before = MeanLoss(engine.get());
  std::unique_ptr<PsClient> chief = gang.Worker(0);
  ASSERT_TRUE(chief->Seed(begin, slots, {}, Soon()).ok());

  std::thread first([&] { Train(chief.get(), spec, 0, 300); });
  Train(gang.Worker(1, 0).get(), spec, 1, 40);  // dies without a word
  gang.NoteWorkerGone(1, Incarnation(1));
  std::thread second([&] {
    const std::unique_ptr<PsClient> successor = gang.Worker(1, 1);
    Train(successor.get(), spec, 1, 200);
    EXPECT_TRUE(successor->Leave(Soon()).ok());
  });
  for (int ps = 0; ps < testing::PsGang::kPsCount; ++ps) {
    EXPECT_TRUE(gang.AwaitWhole());
    gang.Kill(ps);
    std::this_thread::sleep_for(milliseconds(5));
    gang.Replace(ps);
  }
  second.join();
  first.join();

  std::vector<float> end(begin.size());
  const Result<PulledCounts> counts = chief->Pull(end, {}, {}, Soon());
  ASSERT_TRUE(counts.ok()) << counts.error().ToString();
  EXPECT_EQ(counts->least, 540);
  EXPECT_EQ(counts->most, 540);
  Write(end, engine.get());
  EXPECT_LT(MeanLoss(engine.get()), loss_before / 2);
}

INSTANTIATE_TEST_SUITE_P(Optimizers,
                         PsTraining,
                         ::testing::Values(OptimizerSpec(SgdOptimizer{0.5, 0.5, false}),
                                           OptimizerSpec(AdamOptimizer{0.05, 0.9, 0.999, 1e-7})));

}  // namespace
}  // namespace lockstep::runtime
