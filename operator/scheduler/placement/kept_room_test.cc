// What is kept of a node for one gang while others leave it for somebody else.

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"

namespace lockstep::control {
namespace {

// "first" waits for low1, on n1, and low2, on n2; "second", which can only stand on n3, for "wide",
// which is on n1 and n3.
class KeptRoom : public testing::Test {
 protected:
  KeptRoom() {
    QueueSpec queue{.name = "default"};
    queue.ordering = QueueOrdering::kPriority;
    queue.preempts_lower_priority = true;
    EXPECT_TRUE(cluster_.state.SetQueues({queue}).ok());
    cluster_.state.SetNode(GpuNode("n1", 8));
    cluster_.state.SetNode(GpuNode("n2", 4));
    cluster_.state.SetNode(GpuNode("n3", 4, "far"));
    SetRunning("low1", 1, {{"w-0", "n1"}}, 990);
    SetRunning("low2", 1, {{"w-0", "n2"}}, 990);
    SetRunning("wide", 2, {{"w-0", "n1"}, {"w-1", "n3"}}, 0);
    cluster_.state.Submit(Urgent("first", 2));
    EXPECT_EQ(cluster_.Step(),
              "evict default/low1 for default/first\nevict default/low2 for default/first\n"
              "claim default/first w-0@n1 w-1@n2\n");
    cluster_.now += std::chrono::seconds(1);
    GangRequest second = Urgent("second", 1);
    second.gang.classes.front().node_selector["rack"] = "far";
    cluster_.state.Submit(second);
    EXPECT_EQ(cluster_.Step(),
              "evict default/wide for default/second\nclaim default/second w-0@n3\n");
    cluster_.now += std::chrono::seconds(1);
  }

  void SetRunning(const std::string& name, int pods, const PlacedPods& places, int64_t saved_at) {
    cluster_.state.SetRunning(
        GpuGang(name, pods, 4, 0), places, {AtSecond(0), AtSecond(saved_at), 0});
  }

  static GangRequest Urgent(const std::string& name, int pods) {
    GangRequest request = GpuGang(name, pods, 4, 900);
    request.priority = 10;
    return request;
  }

  FakeCluster cluster_;
};

TEST_F(KeptRoom, WhoLeavesForAnotherMakesNoRoomBesideIt) {
  cluster_.state.Remove("default/low1");
  GangRequest thief = GpuGang("thief", 1, 4, 950);
  thief.may_preempt = false;
  cluster_.state.Submit(thief);
  EXPECT_EQ(cluster_.Step(), "refuse default/thief: needs 4 GPUs, 0 free on 3 nodes\n")
      << "4 of n1 are kept, and wide has the others still";
  cluster_.state.Remove("default/low2");
  EXPECT_EQ(cluster_.Step(), "start default/first w-0@n1 w-1@n2\n") << "wide is in nobody's way";
  cluster_.state.Remove("default/wide");
  EXPECT_EQ(cluster_.Step(), "start default/thief w-0@n1\nstart default/second w-0@n3\n");
}

// It may be older, too: what comes free first is theirs who have waited for it longer.
TEST_F(KeptRoom, LaterClaimWaitsForThoseItWasMadeBeside) {
  cluster_.state.Remove("default/low1");
  GangRequest older = Urgent("older", 1);
  older.since = AtSecond(100);
  cluster_.state.Submit(older);
  EXPECT_EQ(cluster_.Step(), "claim default/older w-0@n1\n") << "wide leaves that";
  EXPECT_EQ(cluster_.Step(), "") << "what is free of n1 is kept for the first";
  cluster_.state.Remove("default/low2");
  EXPECT_EQ(cluster_.Step(), "start default/first w-0@n1 w-1@n2\n");
  cluster_.state.Remove("default/wide");
  EXPECT_EQ(cluster_.Step(), "start default/second w-0@n3\nstart default/older w-0@n1\n");
}

// It needs the quota of the other alone. Were it to start first, only this round would know that
// the other is to go, and a new leader would leave it.
TEST(KeptQuota, NobodyStartsBeforeThoseThatLeaveForItAreToldToGo) {
  FakeCluster cluster;
  QueueSpec owner{.name = "owner", .nominal = OfGpus(4)};
  owner.reclaims = true;
  ASSERT_TRUE(cluster.state.SetQueues({owner, {.name = "guest", .nominal = OfGpus(0)}}).ok());
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4, "far"));
  GangRequest guest = GpuGang("guest", 1, 4, 0);
  guest.queue = "guest";
  cluster.state.SetRunning(guest, {{"w-0", "n1"}}, {AtSecond(0), {}, 0});
  GangRequest mine = GpuGang("mine", 1, 4, 900);
  mine.queue = "owner";
  mine.gang.classes.front().node_selector["rack"] = "far";
  cluster.state.Submit(mine);
  EXPECT_EQ(cluster.Step(), "evict default/guest for default/mine\nclaim default/mine w-0@n2\n");
  EXPECT_EQ(cluster.Step(), "");
  cluster.state.Remove("default/guest");
  EXPECT_EQ(cluster.Step(), "start default/mine w-0@n2\n");
}

}  // namespace
}  // namespace lockstep::control
