#include "trainer-runtime/telemetry/progress_log.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;

// The steps of which a line is written, of `steps` steps each of which takes `pace`.
std::vector<int64_t> ToldSteps(int64_t steps, int64_t steps_an_epoch, Duration pace) {
  ProgressLog log;
  std::vector<int64_t> told;
  for (int64_t step = 1; step <= steps; ++step) {
    const TrainingProgress progress{Step(step), (step - 1) / steps_an_epoch, 0.5, 0.9};
    if (const auto line = log.Next(progress, TimePoint() + step * pace)) {
      told.push_back(line->step.value());
    }
  }
  if (const auto line = log.Last()) {
    told.push_back(line->step.value());
  }
  return told;
}

TEST(ProgressLog, EachDataEpochHasALineOfItsLastStep) {
  EXPECT_EQ(ToldSteps(30, 10, milliseconds(200)), (std::vector<int64_t>{10, 20, 30}));
}

TEST(ProgressLog, LongEpochsHaveALineEveryTenSeconds) {
  EXPECT_EQ(ToldSteps(45, 1000, milliseconds(1000)), (std::vector<int64_t>{11, 21, 31, 41, 45}));
}

TEST(ProgressLog, ShortEpochsAreNoFlood) {
  EXPECT_LE(ToldSteps(10'000, 2, milliseconds(1)).size(), 11U);
}

TEST(ProgressLog, LastStepIsToldOnce) {
  EXPECT_EQ(ToldSteps(1, 1, milliseconds(1)), (std::vector<int64_t>{1}));
  EXPECT_EQ(ToldSteps(11, 1000, milliseconds(1000)), (std::vector<int64_t>{11}));
}

}  // namespace
}  // namespace lockstep::runtime
