#include "trainer-runtime/engine/guarded_update.h"

#include <limits>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

GuardedStep StepOf(bool skips_overflow, bool needs_finite) {
  GuardedStep step;
  step.norm_max = kInfinity;
  step.skips_overflow = skips_overflow ? 1 : 0;
  step.needs_finite = needs_finite ? 1 : 0;
  return step;
}

// All there is: what the loss and the gradients are, and who minds.
TEST(GuardedStep, UpdateIsRefusedWhereTheHostWouldNotAskForIt) {
  for (const double loss : {1.0, kInfinity, kNan}) {
    for (const double length : {0.0, 2.0, kInfinity, kNan}) {
      const bool is_loss_finite = loss == 1.0;
      const bool are_gradients_finite = length == 0.0 || length == 2.0;
      for (const bool skips_overflow : {false, true}) {
        for (const bool needs_finite : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << loss << ", " << length << ", " << skips_overflow << ", " << needs_finite);
          const bool is_refused = (skips_overflow && !are_gradients_finite) ||
                                  (needs_finite && !(is_loss_finite && are_gradients_finite));
          const UpdateVerdict verdict = Judge(StepOf(skips_overflow, needs_finite), loss, length);
          EXPECT_EQ(verdict.is_refused, is_refused ? 1 : 0);
          EXPECT_EQ(verdict.clip_factor, 1);
        }
      }
    }
  }
}

TEST(GuardedStep, LongerGradientsAreShortenedOnceTheScaleIsOff) {
  GuardedStep step = StepOf(true, true);
  step.norm_max = 0.5;
  step.inverse_scale = 1.0 / 1024;
  EXPECT_EQ(Judge(step, 1, 512).clip_factor, 1);
  EXPECT_EQ(Judge(step, 1, 2048).clip_factor, 0.25F);
  EXPECT_EQ(Judge(step, 1, 3 * 512).clip_factor, static_cast<float>(0.5 / 1.5));
  EXPECT_EQ(Judge(step, 1, kInfinity).clip_factor, 1);
  EXPECT_EQ(Judge(step, 1, kNan).clip_factor, 1);
}

TEST(GuardedUpdate, DeviceIsToldWhatTheOptionsSay) {
  TrainingSpec spec;
  spec.optimizer = AdamOptimizer{};
  StepOptions options{.gradient_scale = 0.25, .loss_scale = 4096};
  const GuardedStep without = MakeGuardedStep(spec, options);
  EXPECT_EQ(without.seed_factor, 1024);
  EXPECT_EQ(without.inverse_scale, 1.0 / 4096);
  EXPECT_EQ(without.norm_max, kInfinity);
  EXPECT_EQ(without.skips_overflow + without.needs_finite, 0);
  options.update = GuardedUpdate{.number = 7, .norm_max = 3, .needs_finite = true};
  const GuardedStep with = MakeGuardedStep(spec, options);
  EXPECT_EQ(with.norm_max, 3);
  EXPECT_EQ(with.needs_finite, 1);
  EXPECT_EQ(with.skips_overflow, 0);
  EXPECT_EQ(with.adam.step_size,
            std::get<AdamFactors>(MakeUpdateFactors(spec.optimizer, 7)).step_size);
  spec.precision = Precision::kFloat16;
  EXPECT_EQ(MakeGuardedStep(spec, options).skips_overflow, 1);
}

TEST(GuardedUpdate, HostIsToldWhatTheDeviceFound) {
  GuardedStep step = StepOf(true, false);
  step.inverse_scale = 0.125;
  StepNumbers numbers{.loss_sum = 5, .correct_count = 3, .length = 16};
  StepResult result = ResultOf(step, numbers, /*has_update=*/true);
  EXPECT_EQ(result.loss_sum, 5);
  EXPECT_EQ(result.correct_count, 3);
  EXPECT_EQ(result.gradient_length, 2);
  EXPECT_EQ(result.overflow_count, 0);
  EXPECT_TRUE(result.is_updated);
  numbers.length = kInfinity;
  numbers.verdict.is_refused = 1;
  result = ResultOf(step, numbers, /*has_update=*/true);
  EXPECT_EQ(result.overflow_count, 1);
  EXPECT_FALSE(result.is_updated);
  // Of no update: the overflow that was looked for.
  EXPECT_EQ(ResultOf(step, numbers, /*has_update=*/false).overflow_count, 0);
  numbers.overflow = 1;
  EXPECT_EQ(ResultOf(step, numbers, /*has_update=*/false).overflow_count, 1);
}

TEST(GuardedUpdate, EngineInTheHostsMemoryRefusesItInWords) {
  EXPECT_TRUE(RefuseDevicesOptions({}).ok());
  const Status refused = RefuseDevicesOptions({.update = GuardedUpdate{}});
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(RefuseDevicesOptions({.is_awaited = false}).error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::runtime
