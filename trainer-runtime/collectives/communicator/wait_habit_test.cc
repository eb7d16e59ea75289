#include "trainer-runtime/collectives/communicator/wait_habit.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Waits that do not try before the next one that does.
int RestLength(WaitHabit& habit) {
  int length = 0;
  while (!habit.ShouldTry()) {
    ++length;
  }
  return length;
}

TEST(WaitHabit, KeepsOnWhileItPays) {
  WaitHabit habit(2);
  for (int wait = 0; wait < 1000; ++wait) {
    ASSERT_TRUE(habit.ShouldTry());
    habit.Record(true);
  }
}

TEST(WaitHabit, SurvivesSingleLosses) {
  WaitHabit habit(2);
  for (int wait = 0; wait < 1000; ++wait) {
    ASSERT_TRUE(habit.ShouldTry());
    habit.Record(wait % 2 == 0);
  }
}

TEST(WaitHabit, RestsTwiceAsLongAfterEveryLostTrialUpToALimit) {
  WaitHabit habit(1);
  for (const int rest : {0, 16, 32, 64, 128, 256, 512, 512}) {
    EXPECT_EQ(RestLength(habit), rest);
    habit.Record(false);
  }
}

TEST(WaitHabit, StartsAfreshOnceATrialPays) {
  WaitHabit habit(1);
  habit.Record(false);
  habit.Record(false);
  EXPECT_EQ(RestLength(habit), 32);
  habit.Record(true);
  EXPECT_EQ(RestLength(habit), 0);
  habit.Record(false);
  EXPECT_EQ(RestLength(habit), 16);
}

}  // namespace
}  // namespace lockstep::runtime
