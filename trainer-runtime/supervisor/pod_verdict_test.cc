#include "trainer-runtime/supervisor/pod_verdict.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;

constexpr const char* kKill = "killed by SIGKILL";

KilledProcess Killed(const std::string& name,
                     pid_t pid,
                     int64_t ms,
                     const std::string& how = kKill) {
  return {name, pid, how, TimePoint(milliseconds(ms))};
}

PodFailure Failed(const KilledProcess& first) {
  PodFailure failure;
  failure.reason = first.how;
  failure.killed = {first};
  return failure;
}

TEST(AddKilled, AllThatWereKilledTogetherAreTheReason) {
  PodFailure failure = Failed(Killed("rank 1", 123, 100));
  EXPECT_TRUE(AddKilled(Killed("rank 2", 124, 103), &failure));
  EXPECT_EQ(failure.reason,
            "rank 1 (pid 123) and rank 2 (pid 124) were killed by SIGKILL, within 3 ms");
  EXPECT_TRUE(AddKilled(Killed("rank 3", 125, 110), &failure));
  EXPECT_EQ(failure.reason,
            "rank 1 (pid 123), rank 2 (pid 124) and rank 3 (pid 125) were killed by SIGKILL, "
            "within 10 ms");
}

TEST(AddKilled, TheyAreNamedByRankWhoeverIsSeenFirst) {
  PodFailure failure = Failed(Killed("rank 10", 123, 100));
  EXPECT_TRUE(AddKilled(Killed("rank 9", 124, 103), &failure));
  EXPECT_EQ(failure.reason,
            "rank 9 (pid 124) and rank 10 (pid 123) were killed by SIGKILL, within 3 ms");
}

TEST(AddKilled, WhatCameLaterOrInAnotherWayIsNoPartOfIt) {
  PodFailure failure = Failed(Killed("rank 1", 123, 100));
  EXPECT_FALSE(AddKilled(Killed("rank 2", 124, 111), &failure));
  EXPECT_FALSE(AddKilled(Killed("rank 2", 124, 100, "killed by SIGHUP"), &failure));
  EXPECT_EQ(failure.reason, kKill);
  PodFailure of_itself;
  of_itself.reason = "exit code 3";
  EXPECT_FALSE(AddKilled(Killed("rank 2", 124, 100), &of_itself));
  EXPECT_EQ(of_itself.reason, "exit code 3");
}

}  // namespace
}  // namespace lockstep::runtime
