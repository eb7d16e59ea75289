#include "operator/reconcile/gang/suspect_nodes.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::minutes;

constexpr WallTime kLookTime{std::chrono::hours(1'000)};

TEST(SuspectNodes, NodeThatRefusesAgainIsAvoidedTwiceAsLong) {
  std::vector<SuspectNode> suspects;
  WallTime now = kLookTime;
  for (const int64_t expected : {2, 4, 8, 16, 32, 60, 60}) {
    suspects = WithSuspect(suspects, "a", "PodRefused", now);
    EXPECT_EQ(suspects.at(0).until, now + minutes(expected));
    EXPECT_EQ(SuspicionOf(suspects, "a", now), suspects[0].count);
    now = suspects[0].until;
    EXPECT_EQ(SuspicionOf(suspects, "a", now), 0);
  }
  EXPECT_EQ(SuspicionOf(suspects, "b", kLookTime), 0);
}

TEST(SuspectNodes, AreForgottenAfterALongWhileOrOnceTheyHaveProvedThemselves) {
  std::vector<SuspectNode> suspects = WithSuspect({}, "a", "PodRefused", kLookTime);
  suspects = WithSuspect(suspects, "b", "NodeNotReady", suspects[0].until + kSuspicionMax);
  ASSERT_EQ(suspects.size(), 2U);
  suspects = WithSuspect(suspects, "b", "NodeNotReady", suspects[0].until + minutes(61));
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(suspects[0].node, "b");
  EXPECT_TRUE(WithoutNodes(suspects, {"a", "b"}).empty());
}

TEST(SuspectNodes, OnlySoManyAreKeptTheNewestAmongThem) {
  std::vector<SuspectNode> suspects;
  for (std::size_t i = 0; i < kSuspectNodesMax + 5; ++i) {
    suspects = WithSuspect(
        suspects, "node-" + std::to_string(i), "PodRefused", kLookTime + std::chrono::seconds(i));
  }
  EXPECT_EQ(suspects.size(), kSuspectNodesMax);
  EXPECT_EQ(SuspicionOf(suspects, "node-4", kLookTime), 0);
  EXPECT_EQ(SuspicionOf(suspects, "node-20", kLookTime), 1);
}

}  // namespace
}  // namespace lockstep::control
