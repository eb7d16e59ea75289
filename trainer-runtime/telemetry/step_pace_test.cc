#include "trainer-runtime/telemetry/step_pace.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TimePoint At(double seconds) {
  return TimePoint() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

TEST(StepPace, IsUnknownUntilTwoStepsWereSeen) {
  StepPace pace;
  EXPECT_EQ(pace.Until(100), std::nullopt);
  pace.Note(Step(10), At(5));
  EXPECT_EQ(pace.Until(100), std::nullopt);
  pace.Note(Step(10), At(9));  // stands still
  EXPECT_EQ(pace.Until(100), std::nullopt);
  pace.Note(Step(20), At(10));
  EXPECT_EQ(pace.Until(100), std::chrono::seconds(40));
}

TEST(StepPace, TimeBeforeTheFirstStepIsNoneOfIt) {
  StepPace pace;
  pace.Note(Step(0), At(0));
  pace.Note(Step(9000), At(60));
  EXPECT_EQ(pace.Until(10'000), std::nullopt);
  pace.Note(Step(9001), At(61));
  EXPECT_EQ(pace.Until(9011), std::chrono::seconds(10));
}

// Trainers that divide the time since their start by the steps since ever are far off here.
TEST(StepPace, IsThatOfTheStepsSinceACheckpoint) {
  StepPace pace;
  pace.Note(Step(9000), At(0));
  pace.Note(Step(9010), At(10));
  EXPECT_EQ(pace.Until(10'000), std::chrono::seconds(990));
}

TEST(StepPace, BeginsAnewWhereTheProgramGoesBack) {
  StepPace pace;
  pace.Note(Step(100), At(0));
  pace.Note(Step(200), At(10));
  pace.Note(Step(150), At(100));
  EXPECT_EQ(pace.Until(300), std::nullopt);
  pace.Note(Step(160), At(110));
  EXPECT_EQ(pace.Until(300), std::chrono::seconds(140));
}

TEST(StepPace, FollowsTheNewestStepsOfAProgramThatBecomesSlower) {
  StepPace pace;
  double now = 0;
  for (int64_t step = 0; step < 1000; ++step) {
    pace.Note(Step(step), At(now += 0.001));
  }
  for (int64_t step = 1000; step < 1040; ++step) {
    pace.Note(Step(step), At(now += 2));
  }
  EXPECT_EQ(pace.Until(1039 + 10), std::chrono::seconds(20));
}

TEST(StepPace, IsNothingLeftAtTheEndAndBeyond) {
  StepPace pace;
  pace.Note(Step(1), At(0));
  pace.Note(Step(2), At(1));
  EXPECT_EQ(pace.Until(2), Duration::zero());
  EXPECT_EQ(pace.Until(1), Duration::zero());
  pace.Reset();
  EXPECT_EQ(pace.Until(2), std::nullopt);
}

}  // namespace
}  // namespace lockstep::runtime
