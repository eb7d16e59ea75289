#include "operator/controller/look_patience.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

JobId Job(int number) {
  return {"default", "job-" + std::to_string(number)};
}

TEST(LookPatience, GrowsWithThePodsOfAJob) {
  const LookPatience patience;
  EXPECT_EQ(patience.For(Job(0), 1), milliseconds(100));
  EXPECT_EQ(patience.For(Job(0), 200), milliseconds(400));
  EXPECT_EQ(patience.For(Job(0), 5000), milliseconds(1000));
}

TEST(LookPatience, GrowsWithTheGangsThatComeUp) {
  LookPatience patience;
  patience.Note(Job(0), true);
  EXPECT_EQ(patience.For(Job(0), 5), milliseconds(2010));
  EXPECT_EQ(patience.For(Job(1), 5), milliseconds(100)) << "it does not come up";
  for (int number = 0; number < 100; ++number) {
    patience.Note(Job(number), true);
  }
  EXPECT_EQ(patience.For(Job(0), 5), milliseconds(3000));
  for (int number = 0; number < 99; ++number) {
    patience.Note(Job(number), false);
  }
  EXPECT_EQ(patience.For(Job(99), 5), milliseconds(2010)) << "alone again";
  patience.Clear();
  EXPECT_EQ(patience.For(Job(99), 5), milliseconds(100));
}

TEST(LookPatience, HasABound) {
  LookPatience patience;
  for (int number = 0; number < 5000; ++number) {
    patience.Note(Job(number), true);
  }
  EXPECT_EQ(patience.For(Job(0), 5), milliseconds(10'000));
}

}  // namespace
}  // namespace lockstep::control
