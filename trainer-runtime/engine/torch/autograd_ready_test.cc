// How an engine on a device tells of gradients that are ready, step by step and from what it took
// down: what whoever waits for a point's event finds there, and what becomes of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
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

constexpr int64_t kBatchSampleCount = 10;
constexpr float kRanks = 3;  // of which the others bring what this one does

TrainingSpec TwoLayers(Precision precision = Precision::kFloat32) {
  NetworkCase c{"two layers",
                {6, 6, 2},
                {Conv(3, {3, 3}, {1, 1}, Padding::kValid),
                 FlattenLayer{},
                 DropoutLayer{.rate = 0.5},
                 DenseLayer{.units = 4}},
                kSparseLogits,
                4};
  TrainingSpec spec = SpecOf(c);
  spec.precision = precision;
  return spec;
}

// The engine over the double, beside one that tells nobody and takes nothing down.
class Pair {
 public:
  explicit Pair(const TrainingSpec& spec = TwoLayers(), DeviceProbe with = {})
      : probe(with),
        engine(MakeAutogradEngine(spec, MakeFakeTorchDevice(&probe)).value()),
        is_scaled_(spec.precision == Precision::kFloat16),
        by_host_(MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kApart)).value()),
        data_(MakeSamples(spec, 4, 2 * kBatchSampleCount)) {
    // Within the dense layer's kernel, and where the convolution's bias begins.
    const auto tensors = engine->Tensors();
    const auto bias = static_cast<int64_t>(tensors[0].data.size());
    points = {bias + static_cast<int64_t>(tensors[1].data.size()) + 5, bias, 0};
  }

  // A step of which the gradients are summed over kRanks as they become ready. Both engines come to
  // the same values.
  void Step(int64_t sample_count = kBatchSampleCount) {
    const StepOptions options = NextOptions();
    const Batch batch = data_.Slice(0, sample_count);
    const StepResult alone = by_host_->ComputeGradients(batch, options).value();
    const std::vector<float> expected = GradientsOf(*by_host_);
    std::ranges::transform(expected, by_host_->Gradients().begin(), Times);
    ASSERT_TRUE(by_host_->BringToDevice(EnginePart::kGradients).ok());
    ASSERT_TRUE(by_host_->Measure().ok());
    const double length = by_host_->TakeStep()->gradient_length;
    ASSERT_TRUE(by_host_->ApplyUpdate(number_).ok());

    const int launches = probe.launch_count;
    ASSERT_TRUE(Listen(batch, options, [&](int64_t offset, std::span<float> ready) {
                  const auto begin = expected.begin() + offset;
                  EXPECT_TRUE(std::equal(ready.begin(), ready.end(), begin)) << offset;
                  std::ranges::transform(ready, ready.begin(), Times);
                  const std::span<float> rest = ValuesOfGradients().first(offset);
                  is_beside = is_beside || !std::equal(rest.begin(), rest.end(), expected.begin());
                }).ok());
    EXPECT_EQ(told, points);
    const DeviceSums sums = engine->Sums();
    AwaitFakeEvent(sums.made);
    auto* const numbers = static_cast<double*>(sums.numbers.address);
    std::transform(
        numbers, numbers + kStepSumCount, numbers, [](double own) { return kRanks * own; });
    ASSERT_TRUE(engine->Measure().ok());
    const StepResult taken = engine->TakeStep().value();
    EXPECT_EQ(taken.loss_sum, kRanks * alone.loss_sum);
    EXPECT_EQ(taken.gradient_length, length);
    ASSERT_TRUE(engine->ApplyUpdate(number_).ok());
    ASSERT_EQ(ValuesOf(*engine), ValuesOf(*by_host_)) << number_;
    EXPECT_EQ(probe.void_wait_count, 0);
    was_replayed = probe.launch_count > launches;
  }

  // A step that nobody takes. `act` is given each range once its event has come.
  Status Listen(const Batch& batch,
                StepOptions options,
                const std::function<void(int64_t offset, std::span<float> ready)>& act) {
    told.clear();
    is_beside = false;
    options.is_awaited = false;
    options.ready_at = points;
    options.on_ready = [&](int64_t offset, int64_t count, void* made) {
      told.push_back(offset);
      AwaitFakeEvent(made);
      act(offset,
          ValuesOfGradients().subspan(static_cast<std::size_t>(offset),
                                      static_cast<std::size_t>(count)));
    };
    const Result<StepResult> result = engine->ComputeGradients(batch, options);
    return result.ok() ? OkStatus() : Status(result.error());
  }

  // Of which nothing is as in the step before.
  StepOptions NextOptions() {
    ++number_;
    StepOptions options{.gradient_scale = 1.0 / static_cast<double>(kBatchSampleCount + number_),
                        .dropout_seed = static_cast<uint64_t>(number_) * 7};
    options.loss_scale = is_scaled_ ? 1024 : 1;
    return options;
  }

  Batch batch() const { return data_.Slice(0, kBatchSampleCount); }

  // The double's memory is ours.
  std::span<float> ValuesOfGradients() {
    const EngineBuffer buffer = engine->GradientBuffer();
    return {static_cast<float*>(buffer.address), buffer.byte_count / sizeof(float)};
  }

  DeviceProbe probe;
  std::unique_ptr<Engine> engine;
  std::vector<int64_t> points;
  // Of the last step:
  std::vector<int64_t> told;
  bool is_beside = false;  // a point was told of while the rest was not made
  bool was_replayed = false;

 private:
  static float Times(float value) { return kRanks * value; }

  const bool is_scaled_;
  std::unique_ptr<Engine> by_host_;
  SampleData data_;
  int64_t number_ = 0;
};

// Each point once, from the last to the first, and no sooner than its gradients can be waited for;
// what is made of them then is what the step comes to. Steps 4 and later are from the graph.
TEST(AutogradReady, ReplayedStepsTellOfTheirPointsAsOthersDo) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kFloat16, Precision::kBFloat16}) {
    Pair pair(TwoLayers(precision));
    for (int step = 1; step <= 8; ++step) {
      ASSERT_NO_FATAL_FAILURE(pair.Step());
      EXPECT_EQ(pair.was_replayed, step > CapturePolicy::kWarmUpSteps);
      EXPECT_TRUE(pair.is_beside) << "sums go beside backward";
      EXPECT_EQ(pair.probe.fetch_count, step) << "one wait a step";
    }
    EXPECT_EQ(pair.probe.record_count, 1);
    EXPECT_THAT(NoticesOf(*pair.engine),
                ElementsAre("steps with 10 samples in 3 buckets run as one CUDA graph"));
  }
}

// A wait would find the mark of the launch before: the sums of such a step would be of gradients
// that are not made.
TEST(AutogradReady, WhereAGraphMarksLateOnlyItsEndIsWaitedFor) {
  DeviceProbe probe;
  probe.marks_late = true;
  Pair pair(TwoLayers(), probe);
  for (int step = 1; step <= 8; ++step) {
    ASSERT_NO_FATAL_FAILURE(pair.Step());
    EXPECT_EQ(pair.was_replayed, step > CapturePolicy::kWarmUpSteps);
    EXPECT_EQ(pair.is_beside, !pair.was_replayed);
  }
  EXPECT_THAT(NoticesOf(*pair.engine),
              ElementsAre(HasSubstr("summed only when the step has ended"),
                          HasSubstr("run as one CUDA graph")));
}

TEST(AutogradReady, OtherBucketsAreTakenDownAnew) {
  Pair pair;
  for (const bool is_other : {false, true}) {
    pair.points = is_other ? std::vector<int64_t>{7, 0} : pair.points;
    for (int step = 1; step <= 5; ++step) {
      ASSERT_NO_FATAL_FAILURE(pair.Step());
      EXPECT_EQ(pair.was_replayed, step > CapturePolicy::kWarmUpSteps) << step;
    }
  }
  EXPECT_EQ(pair.probe.record_count, 2);
}

TEST(AutogradReady, StepsOfAnotherSizeAreToldOfWithoutTheGraph) {
  Pair pair;
  for (int step = 1; step <= 5; ++step) {
    ASSERT_NO_FATAL_FAILURE(pair.Step());
  }
  for (const int64_t sample_count : {int64_t{3}, int64_t{0}}) {
    ASSERT_NO_FATAL_FAILURE(pair.Step(sample_count));
    EXPECT_FALSE(pair.was_replayed);
    ASSERT_NO_FATAL_FAILURE(pair.Step());
    EXPECT_TRUE(pair.was_replayed);
  }
  EXPECT_EQ(pair.probe.record_count, 1);
}

TEST(AutogradReady, DeviceThatTakesNothingDownTellsOnAndSaysWhyOnce) {
  DeviceProbe probe;
  probe.refuses_recording = true;
  Pair pair(TwoLayers(), probe);
  for (int step = 1; step <= 6; ++step) {
    ASSERT_NO_FATAL_FAILURE(pair.Step());
    EXPECT_FALSE(pair.was_replayed);
  }
  EXPECT_EQ(pair.probe.record_count, 1);
  EXPECT_THAT(NoticesOf(*pair.engine), ElementsAre(HasSubstr("not permitted when stream")));
}

// A sum has failed, say: nobody takes the step, and the device is in the midst of it.
TEST(AutogradReady, StepThatWasGivenUpInMidReplayIsWaitedForByTheNext) {
  Pair pair;
  for (int step = 1; step <= 5; ++step) {
    ASSERT_NO_FATAL_FAILURE(pair.Step());
  }
  const int fetches = pair.probe.fetch_count;
  ASSERT_TRUE(pair.Listen(pair.batch(), {}, [](int64_t, std::span<float>) {}).ok());
  EXPECT_EQ(pair.probe.fetch_count, fetches);
  ASSERT_TRUE(pair.Listen(pair.batch(), {}, [](int64_t, std::span<float>) {}).ok());
  EXPECT_EQ(pair.probe.fetch_count, fetches + 1);
  ASSERT_TRUE(pair.Listen(pair.batch(), {}, [](int64_t, std::span<float>) {}).ok());
  EXPECT_EQ(pair.probe.fetch_count, fetches + 2);
}

// It must not throw; where it does, the step is lost and the engine is not.
TEST(AutogradReady, StepWhoseListenerThrowsFailsAndTheNextWaitsForTheDevice) {
  Pair pair;
  for (const bool is_replayed : {false, true}) {
    const auto thrown =
        pair.Listen(pair.batch(), {}, [](int64_t offset, std::span<float> /*ready*/) {
          if (offset > 0) {
            throw std::runtime_error("no more");
          }
        });
    ASSERT_FALSE(thrown.ok());
    EXPECT_EQ(thrown.error().code(), ErrorCode::kInternal);
    EXPECT_THAT(thrown.error().message(), HasSubstr("no more"));
    EXPECT_EQ(pair.told.size(), 1U);
    const int fetches = pair.probe.fetch_count;
    ASSERT_TRUE(pair.Listen(pair.batch(), {}, [](int64_t, std::span<float>) {}).ok());
    EXPECT_EQ(pair.probe.fetch_count, fetches + 1);
    EXPECT_EQ(pair.probe.launch_count > 0, is_replayed);
    ASSERT_TRUE(pair.engine->Measure().ok());
    ASSERT_TRUE(pair.engine->TakeStep().ok());
    for (int step = 1; step <= 5; ++step) {
      ASSERT_NO_FATAL_FAILURE(pair.Step());
    }
    EXPECT_TRUE(pair.was_replayed);
  }
}

// A larger batch moves what the graph reads, while the last step from it is not at its end.
TEST(AutogradReady, GraphThatIsDroppedInMidReplayComesToItsEnd) {
  Pair pair;
  for (int step = 1; step <= 5; ++step) {
    ASSERT_NO_FATAL_FAILURE(pair.Step());
  }
  ASSERT_TRUE(pair.Listen(pair.batch(), {}, [](int64_t, std::span<float>) {}).ok());
  EXPECT_EQ(pair.probe.launch_count, 3);
  ASSERT_NO_FATAL_FAILURE(pair.Step(2 * kBatchSampleCount));
  EXPECT_FALSE(pair.was_replayed);
  ASSERT_NO_FATAL_FAILURE(pair.Step());
  EXPECT_FALSE(pair.was_replayed) << "the graph is no more";
}

}  // namespace
}  // namespace lockstep::runtime
