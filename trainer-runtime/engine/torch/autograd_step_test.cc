// How an engine on a device takes a step: its update behind the gradients without the host, one
// wait, the host's memory within the device's reach, and steps that are taken down and done again.

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/engine/capture_policy.h"
#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/torch/autograd_engine.h"
#include "trainer-runtime/engine/torch/network_cases.h"
#include "trainer-runtime/engine/torch/testing/fake_torch_device.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSampleCount = 10;

TrainingSpec DropoutSpec() {
  NetworkCase c{"dropout twice",
                {6, 6, 2},
                {DropoutLayer{.rate = 0.25},
                 Conv(3, {3, 3}, {1, 1}, Padding::kValid),
                 FlattenLayer{},
                 DropoutLayer{.rate = 0.5},
                 DenseLayer{.units = 4}},
                kSparseLogits,
                4};
  return SpecOf(c);
}

SampleData DataOf(const TrainingSpec& spec, int64_t sample_count = kSampleCount) {
  return MakeSamples(spec, 4, sample_count);
}

std::unique_ptr<Engine> MakeOn(DeviceProbe* probe, const TrainingSpec& spec) {
  return MakeAutogradEngine(spec, MakeFakeTorchDevice(probe)).value();
}

std::unique_ptr<Engine> MakeOnHost(const TrainingSpec& spec) {
  return MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kApart)).value();
}

// Of step `number`: nothing in it is as in the step before.
StepOptions OptionsOf(int64_t number, double loss_scale) {
  return {.gradient_scale = 1.0 / static_cast<double>(kSampleCount + number),
          .dropout_seed = static_cast<uint64_t>(number) * 7,
          .first_sample = number * 3,
          .loss_scale = loss_scale};
}

StepOptions WithUpdate(StepOptions options, int64_t number, std::optional<double> norm_max = {}) {
  options.update = GuardedUpdate{.number = number, .norm_max = norm_max, .needs_finite = true};
  return options;
}

// What the device says of its gradients now.
StepResult MeasuredStep(Engine& engine) {
  EXPECT_TRUE(engine.Measure().ok());
  return engine.TakeStep().value();
}

// The host's way: a look at the gradients, then what it wants done to them, then the update.
StepResult StepByTheHost(Engine& engine,
                         const Batch& batch,
                         const StepOptions& options,
                         int64_t number,
                         std::optional<double> norm_max) {
  StepResult result = engine.ComputeGradients(batch, options).value();
  const double length = MeasuredStep(engine).gradient_length;
  if (norm_max.has_value() && length > *norm_max) {
    EXPECT_TRUE(engine.ScaleGradients(static_cast<float>(*norm_max / length)).ok());
  }
  EXPECT_TRUE(engine.ApplyUpdate(number).ok());
  result.gradient_length = length;
  return result;
}

const std::vector<OptimizerSpec> kOptimizers = {SgdOptimizer{.learning_rate = 0.1},
                                                SgdOptimizer{0.1, 0.9, false},
                                                SgdOptimizer{0.1, 0.9, true},
                                                AdamOptimizer{},
                                                AdamOptimizer{.weight_decay = 0.25}};

// Steps 5 and later are done from what step 4 took down: what they take from the host has to come
// by way of the device's memory.
TEST(AutogradStep, GuardedAndReplayedStepsComeToTheBitsOfTheHostsCalls) {
  for (const OptimizerSpec& optimizer : kOptimizers) {
    for (const Precision precision :
         {Precision::kFloat32, Precision::kFloat16, Precision::kBFloat16}) {
      for (const std::optional<double> norm_max : {std::optional<double>(), {0.05}}) {
        TrainingSpec spec = DropoutSpec();
        spec.optimizer = optimizer;
        spec.precision = precision;
        const SampleData data = DataOf(spec);
        DeviceProbe probe;
        const auto engine = MakeOn(&probe, spec);
        const auto by_host = MakeOnHost(spec);
        for (int64_t number = 1; number <= 8; ++number) {
          const bool is_scaled = precision == Precision::kFloat16;
          const StepOptions options =
              OptionsOf(number, is_scaled ? std::ldexp(1, 16 - static_cast<int>(number)) : 1);
          const StepResult expected =
              StepByTheHost(*by_host, data.All(), options, number, norm_max);
          const StepResult found =
              engine->ComputeGradients(data.All(), WithUpdate(options, number, norm_max)).value();
          ASSERT_TRUE(found.is_updated);
          EXPECT_EQ(found.loss_sum, expected.loss_sum);
          EXPECT_EQ(found.correct_count, expected.correct_count);
          EXPECT_EQ(found.gradient_length, expected.gradient_length);
          ASSERT_EQ(ValuesOf(*engine), ValuesOf(*by_host)) << number;
        }
        EXPECT_EQ(probe.launch_count, 5);
      }
    }
  }
}

// The slice of a step's own, of another size now and then.
struct StepSlice {
  int64_t begin;
  int64_t count;
  bool is_ahead;  // it may come while the step before is computed

  Batch Of(const SampleData& data) const { return data.Slice(begin, begin + count); }
};

constexpr StepSlice kSlices[] = {{0, 10, false},
                                 {3, 10, true},
                                 {6, 10, true},
                                 {1, 10, true},
                                 {9, 10, true},
                                 {2, 4, false},
                                 {5, 10, true},
                                 {7, 10, false},
                                 {0, 10, true},
                                 {4, 16, true},
                                 {8, 10, true}};

// Eager steps and replayed ones; the last ones after a batch that moves the memory.
TEST(AutogradStep, BatchesThatCameAheadComeToTheSameBits) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec, 20);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  const auto plain = MakeOnHost(spec);
  for (std::size_t i = 0; i < std::size(kSlices); ++i) {
    const auto number = static_cast<int64_t>(i) + 1;
    const Batch batch = kSlices[i].Of(data);
    StepOptions options = WithUpdate(OptionsOf(number, 1), number, 0.1);
    const StepResult expected = plain->ComputeGradients(batch, options).value();
    int asked = 0;
    options.is_prefetched = kSlices[i].is_ahead;
    options.next = [&]() -> std::optional<Batch> {
      ++asked;
      const bool has_next = i + 1 < std::size(kSlices) && i != 4;  // that one is asked for in vain
      return has_next ? std::optional(kSlices[i + 1].Of(data)) : std::nullopt;
    };
    const StepResult found = engine->ComputeGradients(batch, options).value();
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(found.loss_sum, expected.loss_sum) << number;
    ASSERT_EQ(ValuesOf(*engine), ValuesOf(*plain)) << number;
    EXPECT_EQ(probe.fetch_count, number) << "one wait a step";
    if (i == 2) {
      EXPECT_EQ(probe.copy_count, 3);
      EXPECT_EQ(probe.copy_fetch_count, number - 1) << "before the device was waited for";
    }
  }
  EXPECT_GT(probe.launch_count, 0);
  EXPECT_EQ(probe.hasty_copy_count, 0) << "the host's side of a copy is written anew";
}

TEST(AutogradStep, StepWithAnUpdateWaitsOnceAndAsksTheHostNothing) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  for (int64_t number = 1; number <= 6; ++number) {
    ASSERT_TRUE(
        engine->ComputeGradients(data.All(), WithUpdate(OptionsOf(number, 1), number, 0.1)).ok());
    EXPECT_EQ(probe.fetch_count, number);
    EXPECT_EQ(probe.guarded_count, number);
  }
  EXPECT_EQ(probe.update_count, 0);
}

// With peers: everything is asked for at once, and what is taken at last is what others have made
// of it in the meantime.
TEST(AutogradStep, StepThatIsNotAwaitedWaitsOnceBehindTheSumsOfOthers) {
  for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
    TrainingSpec spec = DropoutSpec();
    spec.precision = precision;
    const SampleData data = DataOf(spec);
    DeviceProbe probe;
    const auto engine = MakeOn(&probe, spec);
    const auto by_host = MakeOnHost(spec);
    for (int64_t number = 1; number <= 6; ++number) {
      StepOptions options = OptionsOf(number, precision == Precision::kFloat16 ? 1024 : 1);
      const StepResult expected = by_host->ComputeGradients(data.All(), options).value();
      const double length = MeasuredStep(*by_host).gradient_length;
      options.is_awaited = false;
      EXPECT_EQ(engine->ComputeGradients(data.All(), options)->loss_sum, 0);
      const DeviceSums sums = engine->Sums();
      ASSERT_EQ(sums.numbers.type, NumberType::kFloat64);
      EXPECT_EQ(sums.after, &probe) << "the second stream";
      AwaitFakeEvent(sums.made);
      // Two more ranks have brought as much, and one of them an overflow.
      auto* const numbers = static_cast<double*>(sums.numbers.address);
      numbers[0] *= 3;
      numbers[1] *= 3;
      const bool has_overflown = precision == Precision::kFloat16 && number == 2;
      numbers[2] += has_overflown ? 1 : 0;
      EXPECT_EQ(probe.fetch_count, number - 1);
      ASSERT_TRUE(engine->Measure().ok());
      EXPECT_EQ(probe.fetch_count, number - 1);
      const StepResult found = engine->TakeStep().value();
      EXPECT_EQ(probe.fetch_count, number);
      EXPECT_EQ(probe.fetch_count_after, number);
      EXPECT_EQ(found.loss_sum, 3 * expected.loss_sum);
      EXPECT_EQ(found.correct_count, 3 * expected.correct_count);
      EXPECT_EQ(found.overflow_count, has_overflown ? 1 : 0);
      EXPECT_EQ(found.gradient_length, length);
      ASSERT_TRUE(engine->ApplyUpdate(number).ok());
      ASSERT_TRUE(by_host->ApplyUpdate(number).ok());
      ASSERT_EQ(ValuesOf(*engine), ValuesOf(*by_host)) << number;
    }
    EXPECT_EQ(probe.launch_count, 3) << "of the steps, which nobody listens to";
  }
}

// What the next batch goes by is not written to before the device has read the last one.
TEST(AutogradStep, StepThatWasGivenUpIsWaitedForByTheNext) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  ASSERT_TRUE(engine->ComputeGradients(data.All(), {.is_awaited = false}).ok());
  EXPECT_EQ(probe.fetch_count, 0);
  ASSERT_TRUE(engine->ComputeGradients(data.All(), {.is_awaited = false}).ok());
  EXPECT_EQ(probe.fetch_count, 1);
  EXPECT_EQ(probe.fetch_count_after, 0);
  MeasuredStep(*engine);
  ASSERT_TRUE(engine->ComputeGradients(data.All(), {}).ok());
  EXPECT_EQ(probe.fetch_count, 3);
}

// In Float16 what is too large at one scale is skipped, and nothing moves; a lower scale goes on
// with the same number. Before the steps are taken down, and after.
TEST(AutogradStep, OverflowIsSkippedByTheDeviceAndToldWithTheLoss) {
  TrainingSpec spec = DropoutSpec();
  spec.precision = Precision::kFloat16;
  spec.optimizer = AdamOptimizer{};
  const SampleData data = DataOf(spec);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  const auto by_host = MakeOnHost(spec);
  int64_t number = 1;
  for (int step = 0; step < 10; ++step) {
    StepOptions options{.gradient_scale = 0.1, .loss_scale = 1024};
    const bool is_too_large = step % 3 == 1;
    if (is_too_large) {
      options.loss_scale = std::ldexp(1.0, 60);
    }
    const std::vector<float> before = ValuesOf(*engine);
    const StepResult result =
        engine->ComputeGradients(data.All(), WithUpdate(options, number)).value();
    EXPECT_EQ(result.overflow_count, is_too_large ? 1 : 0) << step;
    EXPECT_EQ(result.is_updated, !is_too_large) << step;
    EXPECT_TRUE(std::isfinite(result.loss_sum));
    if (is_too_large) {
      EXPECT_EQ(ValuesOf(*engine), before) << step;
    } else {
      StepByTheHost(*by_host, data.All(), options, number, {});
      EXPECT_EQ(ValuesOf(*engine), ValuesOf(*by_host)) << step;
      ++number;
    }
  }
  EXPECT_EQ(number, 8);
}

TEST(AutogradStep, DivergedStepIsRefusedOnlyWhereSomebodyMinds) {
  const TrainingSpec spec = DropoutSpec();
  SampleData data = DataOf(spec);
  data.inputs.front() = std::numeric_limits<float>::infinity();
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  const std::vector<float> before = ValuesOf(*engine);
  StepOptions options = WithUpdate({.gradient_scale = 0.1}, 1);
  const StepResult refused = engine->ComputeGradients(data.All(), options).value();
  EXPECT_FALSE(refused.is_updated);
  EXPECT_FALSE(std::isfinite(refused.gradient_length));
  EXPECT_EQ(refused.overflow_count, 0) << "is Float16's alone";
  EXPECT_EQ(ValuesOf(*engine), before);
  options.update->needs_finite = false;
  EXPECT_TRUE(engine->ComputeGradients(data.All(), options)->is_updated);
  EXPECT_NE(ValuesOf(*engine), before);
}

// The last batch of a data epoch is smaller; a larger one moves what was taken down.
TEST(AutogradStep, StepsInARowAreTakenDownAndOthersAreNot) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec, 24);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  const auto by_host = MakeOnHost(spec);
  int64_t number = 0;
  const auto take = [&](int64_t sample_count, int times) {
    for (int i = 0; i < times; ++i) {
      const StepOptions options = OptionsOf(++number, 1);
      const Batch batch = data.Slice(0, sample_count);
      StepByTheHost(*by_host, batch, options, number, {});
      ASSERT_TRUE(engine->ComputeGradients(batch, WithUpdate(options, number))->is_updated);
      ASSERT_EQ(ValuesOf(*engine), ValuesOf(*by_host)) << number;
    }
  };
  take(16, CapturePolicy::kWarmUpSteps);
  EXPECT_EQ(probe.record_count, 0);
  take(16, 4);
  EXPECT_EQ(probe.record_count, 1);
  EXPECT_EQ(probe.launch_count, 4);
  take(5, 1);
  EXPECT_EQ(probe.launch_count, 4);
  take(16, 2);
  EXPECT_EQ(probe.launch_count, 6);
  take(24, 1);
  take(16, CapturePolicy::kWarmUpSteps);
  EXPECT_EQ(probe.launch_count, 6) << "where the graph's numbers were is somebody else's memory";
  take(16, 2);
  EXPECT_EQ(probe.record_count, 2);
  EXPECT_EQ(probe.launch_count, 8);
  EXPECT_THAT(NoticesOf(*engine),
              ElementsAre("steps with 16 samples run as one CUDA graph",
                          HasSubstr("a step with 5 samples does not use the CUDA graph")));
}

// Its memory is that of a step's activations, which the steps operation by operation need as well.
TEST(AutogradStep, GraphIsGoneOnceStepsAreNotTakenDownAnyMore) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  int64_t number = 0;
  for (int change = 0; change <= CapturePolicy::kCapturesMax; ++change) {
    EXPECT_EQ(probe.graph_count, change == 0 ? 0 : 1) << change;
    for (int i = 0; i <= CapturePolicy::kWarmUpSteps; ++i) {
      const StepOptions options = OptionsOf(++number, 1);
      const Batch batch = data.Slice(0, change % 2 == 0 ? 4 : 3);
      ASSERT_TRUE(engine->ComputeGradients(batch, WithUpdate(options, number))->is_updated);
    }
  }
  EXPECT_EQ(probe.record_count, CapturePolicy::kCapturesMax);
  EXPECT_EQ(probe.graph_count, 0);
}

TEST(AutogradStep, GradientsForTheHostAreTakenDownToo) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe;
  const auto engine = MakeOn(&probe, spec);
  const auto by_host = MakeOnHost(spec);
  for (int64_t number = 1; number <= 6; ++number) {
    const StepOptions options = OptionsOf(number, 1);
    ASSERT_TRUE(by_host->ComputeGradients(data.All(), options).ok());
    ASSERT_TRUE(engine->ComputeGradients(data.All(), options).ok());
    EXPECT_EQ(GradientsOf(*engine), GradientsOf(*by_host));
  }
  EXPECT_EQ(probe.launch_count, 3);
}

TEST(AutogradStep, DeviceThatTakesNothingDownTrainsOnAndSaysWhyOnce) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe{.refuses_recording = true};
  const auto engine = MakeOn(&probe, spec);
  const auto by_host = MakeOnHost(spec);
  for (int64_t number = 1; number <= 6; ++number) {
    const StepOptions options = OptionsOf(number, 1);
    StepByTheHost(*by_host, data.All(), options, number, {});
    ASSERT_TRUE(engine->ComputeGradients(data.All(), WithUpdate(options, number)).ok());
    EXPECT_EQ(ValuesOf(*engine), ValuesOf(*by_host)) << number;
  }
  EXPECT_EQ(probe.record_count, 1);
  EXPECT_THAT(NoticesOf(*engine),
              ElementsAre("steps are not captured as a CUDA graph: operation not permitted when "
                          "stream is capturing"));
}

TEST(AutogradStep, ImageStagingAndLentMemoryArePinnedAsLongAsTheyAreUsed) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe;
  std::vector<float> lent;
  std::vector<float> lent_later;
  {
    const auto engine = MakeOn(&probe, spec);
    EXPECT_EQ(probe.pinned_count, 3) << "parameters, gradients and slots";
    ASSERT_TRUE(engine->ComputeGradients(data.All(), {}).ok());
    EXPECT_EQ(probe.pinned_count, 4) << "and what a batch goes by";
    lent.resize(engine->Gradients().size());
    lent_later = lent;
    ASSERT_TRUE(engine->LendGradients(lent).ok());
    EXPECT_EQ(probe.pinned_count, 4) << "in the place of the engine's own";
    ASSERT_TRUE(engine->LendGradients(lent_later).ok());
    EXPECT_EQ(probe.pinned_count, 4);
    ASSERT_TRUE(engine->ComputeGradients(data.All(), {}).ok());
    EXPECT_EQ(GradientsOf(*engine), lent_later);
  }
  EXPECT_EQ(probe.pinned_count, 0);
}

TEST(AutogradStep, MemoryThatCannotBePinnedIsPlainAndToldOnce) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  DeviceProbe probe{.refuses_pinning = true};
  const auto engine = MakeOn(&probe, spec);
  std::vector<float> lent(engine->Gradients().size());
  ASSERT_TRUE(engine->LendGradients(lent).ok());
  const auto apart = MakeOnHost(spec);
  EXPECT_EQ(TrainOnOneBatch(*engine, data, 3), TrainOnOneBatch(*apart, data, 3));
  EXPECT_EQ(ValuesOf(*engine), ValuesOf(*apart));
  EXPECT_THAT(NoticesOf(*engine),
              ElementsAre("copies between the host and a double use memory that is not pinned, "
                          "which is slower: no more than 64 KiB may be locked"));
}

TEST(AutogradStep, DeviceWithoutGraphsAndPinsHasNothingToTell) {
  const TrainingSpec spec = DropoutSpec();
  const SampleData data = DataOf(spec);
  const auto engine = MakeOnHost(spec);
  for (int64_t number = 1; number <= 6; ++number) {
    ASSERT_TRUE(
        engine->ComputeGradients(data.All(), WithUpdate(OptionsOf(number, 1), number)).ok());
  }
  EXPECT_THAT(NoticesOf(*engine), IsEmpty());
}

}  // namespace
}  // namespace lockstep::runtime
