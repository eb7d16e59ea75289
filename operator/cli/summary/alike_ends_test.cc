#include "operator/cli/summary/alike_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AlikeEnds, FirstHasALineAndTheOthersOneTogether) {
  AlikeEnds ends;
  EXPECT_THAT(ends.Add("job-worker-0", "exit code 3"),
              ElementsAre("job-worker-0 ended: exit code 3"));
  EXPECT_THAT(ends.Add("job-worker-1", "exit code 3"), IsEmpty());
  EXPECT_THAT(ends.Add("job-worker-2", "exit code 3"), IsEmpty());
  EXPECT_THAT(
      ends.Add("job-worker-3", "killed by SIGKILL"),
      ElementsAre("2 more pods ended: exit code 3", "job-worker-3 ended: killed by SIGKILL"));
  EXPECT_THAT(ends.Add("job-worker-4", "killed by SIGKILL"), IsEmpty());
  EXPECT_THAT(ends.Rest(), ElementsAre("1 more pod ended: killed by SIGKILL"));
  EXPECT_THAT(ends.Rest(), IsEmpty());
}

TEST(AlikeEnds, WhatIsSaidInBetweenBeginsAnew) {
  AlikeEnds ends;
  EXPECT_THAT(ends.Rest(), IsEmpty());
  ends.Add("job-worker-0", "exit code 3");
  EXPECT_THAT(ends.Rest(), IsEmpty());
  EXPECT_THAT(ends.Add("job-worker-1", "exit code 3"),
              ElementsAre("job-worker-1 ended: exit code 3"));
}

}  // namespace
}  // namespace lockstep::control
