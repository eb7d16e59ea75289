#include "trainer-runtime/supervisor/status/step_file.h"

#include <array>
#include <fcntl.h>
#include <limits>
#include <unistd.h>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// As a program does it.
class StepFileTest : public testing::Test {
 protected:
  void Write(int local_rank, int64_t count, int64_t step) {
    const std::array<int64_t, 2> numbers{count, step};
    const UniqueFd file(::open(file_.path().c_str(), O_RDWR));
    ASSERT_EQ(::pwrite(file.get(), numbers.data(), sizeof(numbers), 24 * local_rank),
              static_cast<ssize_t>(sizeof(numbers)));
  }

  StepFile file_ = StepFile::Make(2).value();
};

TEST_F(StepFileTest, HasTheStepsOfEachProcess) {
  EXPECT_EQ(file_.Read(0), OptimizerSteps());
  Write(0, 3, 103);
  Write(1, 2, -1);
  EXPECT_EQ(file_.Read(0), (OptimizerSteps{3, Step(103)}));
  EXPECT_EQ(file_.Read(1), (OptimizerSteps{2, std::nullopt}));
}

TEST_F(StepFileTest, StepIsForgottenAndTheCountIsNot) {
  Write(0, 3, 103);
  Write(1, 2, 102);
  file_.ForgetStep(1);
  EXPECT_EQ(file_.Read(0), (OptimizerSteps{3, Step(103)}));
  EXPECT_EQ(file_.Read(1), (OptimizerSteps{2, std::nullopt}));
}

TEST_F(StepFileTest, WhatIsNoNumberOfStepsIsNone) {
  Write(0, -5, 0);
  EXPECT_EQ(file_.Read(0), OptimizerSteps());
  const int64_t largest = std::numeric_limits<int64_t>::max();
  Write(0, largest, largest);
  EXPECT_EQ(file_.Read(0), (OptimizerSteps{int64_t{1} << 53, std::nullopt}));
  ASSERT_EQ(::truncate(file_.path().c_str(), 8), 0);
  EXPECT_EQ(file_.Read(0), OptimizerSteps());
}

}  // namespace
}  // namespace lockstep::runtime
