#include "operator/scheduler/placement/placer.h"

#include <set>

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

// Two blocks of two racks of two nodes with so many GPUs: b1/r1: n1 n2, b1/r2: n3 n4, ...
void AddTwoBlocks(int64_t gpus, FakeCluster* cluster) {
  for (int i = 0; i < 8; ++i) {
    SnapshotNode node = GpuNode("n" + std::to_string(i + 1), gpus, "r" + std::to_string(i / 2 + 1));
    node.labels["block"] = "b" + std::to_string(i / 4 + 1);
    cluster->state.SetNode(node);
  }
}

std::string Placed(FakeCluster* cluster, const GangRequest& request) {
  cluster->state.Submit(request);
  return cluster->Step();
}

TEST(PlaceGang, GangGoesToTheSmallestDomainThatHoldsIt) {
  FakeCluster cluster({{"block", "rack"}, false});
  AddTwoBlocks(4, &cluster);
  EXPECT_EQ(Placed(&cluster, GpuGang("a", 3, 1, 1)), "start default/a w-0@n1 w-1@n1 w-2@n1\n");
  EXPECT_EQ(Placed(&cluster, GpuGang("b", 2, 3, 2)), "start default/b w-0@n3 w-1@n4\n")
      << "r1 has no two places left";
  EXPECT_EQ(Placed(&cluster, GpuGang("c", 3, 4, 3)), "start default/c w-0@n5 w-1@n6 w-2@n7\n")
      << "no rack holds three, b2 does";
  EXPECT_EQ(Placed(&cluster, GpuGang("d", 1, 1, 4)), "start default/d w-0@n1\n")
      << "the tightest node";
}

TEST(PlaceGang, DomainWithLeastRoomIsTakenSoThatLargeOnesStayWhole) {
  FakeCluster cluster({{"rack"}, false});
  for (int i = 0; i < 6; ++i) {
    cluster.state.SetNode(GpuNode("a" + std::to_string(i), 4, "large"));
  }
  for (int i = 0; i < 2; ++i) {
    cluster.state.SetNode(GpuNode("z" + std::to_string(i), 4, "small"));
  }
  EXPECT_EQ(Placed(&cluster, GpuGang("a", 2, 4, 1)), "start default/a w-0@z0 w-1@z1\n");
}

TEST(PlaceGang, RequiredLevelIsKeptAndTheShortfallNamed) {
  FakeCluster cluster({{"rack"}, false});
  for (int i = 0; i < 5; ++i) {
    cluster.state.SetNode(GpuNode("n" + std::to_string(i), 4, i < 3 ? "r1" : "r2"));
  }
  GangRequest request = GpuGang("a", 4, 4, 1);
  request.topology.required = "rack";
  EXPECT_EQ(Placed(&cluster, request),
            "refuse default/a: needs 4 w pods in one rack; the one with most room, r1, has room "
            "for 3, even if nothing else ran\n");
  cluster.state.SetNode(GpuNode("n9", 4, "r1"));
  EXPECT_EQ(cluster.Step(), "start default/a w-0@n0 w-1@n1 w-2@n2 w-3@n9\n");
  request.name = "default/b";
  request.topology.required = "row";
  EXPECT_EQ(Placed(&cluster, request),
            "refuse default/b: the cluster's topology has no level with the label row\n");
}

TEST(PlaceGang, OneNodeMayBeRequired) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.SetStrangers("n1", {{0, 0, 1, {}}, 1});
  GangRequest request = GpuGang("a", 4, 1, 1);
  request.topology.required = std::string(kHostLevel);
  EXPECT_EQ(Placed(&cluster, request), "start default/a w-0@n2 w-1@n2 w-2@n2 w-3@n2\n");
  request.name = "default/b";
  request.gang = {{MakeClass("w", 2, {0, 0, 2, {}})}};
  EXPECT_EQ(Placed(&cluster, request), "refuse default/b: needs 4 GPUs, 3 free on 1 node\n");
  request.gang = {{MakeClass("w", 2, {0, 0, 1, {}}), MakeClass("ps", 1, {})}};
  cluster.state.SetStrangers("n1", {{0, 0, 3, {}}, 1});
  cluster.state.SetNode(GpuNode("n3", 1));
  EXPECT_EQ(Placed(&cluster, request),
            "refuse default/b: needs 2 w pods in one kubernetes.io/hostname; the one with most "
            "room, n1, has room for 1, with 1 of 2 GPUs\n");
}

TEST(PlaceGang, WhatTheLargestNodeLacksIsSaidWhereOneNodeIsRequired) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 2));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.SetNode(GpuNode("n3", 4));
  GangRequest request = GpuGang("a", 4, 2, 1);
  request.topology.required = std::string(kHostLevel);
  EXPECT_EQ(Placed(&cluster, request),
            "refuse default/a: needs 4 w pods in one kubernetes.io/hostname; the one with most "
            "room, n2, has room for 2, with 4 of 8 GPUs, even if nothing else ran\n");
  request.gang = {{MakeClass("w", 1, {0, 0, 3, {}}), MakeClass("ps", 1, {0, 0, 2, {}})}};
  EXPECT_EQ(
      Placed(&cluster, request),
      "refuse default/a: needs 5 GPUs in one kubernetes.io/hostname; the node with the most, n2, "
      "has 4, even if nothing else ran\n");
  SnapshotNode large = GpuNode("large", 8);
  large.state = NodeState::kCordoned;
  cluster.state.SetNode(large);
  EXPECT_EQ(
      Placed(&cluster, request),
      "refuse default/a: needs 5 GPUs in one kubernetes.io/hostname; the node with the most, n2, "
      "has 4\n")
      << "it would fit the one that takes no pods now";
}

TEST(PlaceGang, WhatIsPreferredIsWhereTheSearchBegins) {
  FakeCluster cluster({{"block", "rack"}, false});
  AddTwoBlocks(4, &cluster);
  cluster.state.SetRunning(
      GpuGang("x", 2, 4, 0), {{"w-0", "n3"}, {"w-1", "n4"}}, {AtSecond(0), {}, 0});
  GangRequest request = GpuGang("a", 2, 4, 1);
  request.topology.preferred = "block";
  EXPECT_EQ(Placed(&cluster, request), "start default/a w-0@n1 w-1@n2\n")
      << "b1 has less room than b2";
  request.name = "default/b";
  request.topology.required = "rack";
  EXPECT_EQ(Placed(&cluster, request), "start default/b w-0@n5 w-1@n6\n")
      << "whatever is preferred, what is required is looked for";
}

TEST(PlaceGang, PodsThatStandApartAreOneToADomain) {
  FakeCluster cluster({{"rack"}, false});
  for (int i = 0; i < 6; ++i) {
    cluster.state.SetNode(GpuNode("n" + std::to_string(i), 4, "r" + std::to_string(i / 2)));
  }
  cluster.state.SetNode(GpuNode("m", 4));  // in no rack
  GangRequest request = GpuGang("a", 3, 1, 1);
  request.topology.apart = "rack";
  EXPECT_EQ(Placed(&cluster, request), "start default/a w-0@n0 w-1@n2 w-2@n4\n");
  request = GpuGang("b", 4, 1, 2);
  request.topology.apart = "rack";
  EXPECT_EQ(Placed(&cluster, request),
            "refuse default/b: needs 4 domains of rack with room for one pod each, 3 have, even if "
            "nothing else ran\n");
  request.topology.apart = std::string(kHostLevel);
  EXPECT_EQ(Placed(&cluster, request), "start default/b w-0@m w-1@n0 w-2@n2 w-3@n4\n")
      << "tight nodes first";
}

TEST(PlaceGang, RolesThatStandApartShareTheDomains) {
  FakeCluster cluster({{"rack"}, false});
  cluster.state.SetNode(GpuNode("n1", 1, "r1"));
  cluster.state.SetNode(GpuNode("n2", 4, "r2"));
  GangRequest request = GpuGang("a", 1, 1, 1);
  request.gang.classes.push_back(MakeClass("big", 1, {0, 0, 4, {}}));
  request.topology.apart = "rack";
  EXPECT_EQ(Placed(&cluster, request), "start default/a w-0@n1 big-0@n2\n");
  cluster.state.Remove("default/a");
  cluster.state.RemoveNode("n1");
  cluster.state.SetNode(GpuNode("n1", 1, "r2"));
  EXPECT_NE(Placed(&cluster, request).find("refuse"), std::string::npos);
  cluster.state.SetNode(GpuNode("n3", 2, "r3"));
  EXPECT_EQ(cluster.Step(), "start default/a w-0@n3 big-0@n2\n")
      << "n1 is tighter, but stands beside n2";
}

TEST(PlaceGang, SuspectsAreTakenWhereTheOthersWillNotDo) {
  FakeCluster cluster({{"rack"}, false});
  for (int i = 0; i < 4; ++i) {
    SnapshotNode node = GpuNode("n" + std::to_string(i), 4, i < 2 ? "r1" : "r2");
    node.suspicion = i == 0 ? 1 : 0;
    cluster.state.SetNode(node);
  }
  EXPECT_EQ(Placed(&cluster, GpuGang("a", 2, 4, 1)), "start default/a w-0@n2 w-1@n3\n");
  EXPECT_EQ(Placed(&cluster, GpuGang("b", 2, 4, 2)), "start default/b w-0@n0 w-1@n1\n");
}

// A node on which pods of one gang could not start is as good as any to the others.
TEST(PlaceGang, WhatOneGangSuspectsIsNothingToOthers) {
  FakeCluster cluster;
  for (int i = 0; i < 4; ++i) {
    cluster.state.SetNode(GpuNode("n" + std::to_string(i), 4));
  }
  GangRequest gang = GpuGang("a", 3, 4, 1);
  gang.suspects = {{"n0", 1}, {"n1", 2}, {"gone", 1}};
  EXPECT_EQ(Placed(&cluster, gang), "start default/a w-0@n0 w-1@n2 w-2@n3\n");
  EXPECT_EQ(Placed(&cluster, GpuGang("b", 1, 4, 2)), "start default/b w-0@n1\n");
}

TEST(PlaceGang, SuspectThatOtherPodsMustSpareIsTakenAsFarAsItIsSpared) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n0", 4));
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetStrangers("n1", {{0, 0, 1, {}}, 1});
  GangRequest gang = GpuGang("a", 5, 1, 1);
  gang.suspects = {{"n0", 1}};
  EXPECT_EQ(Placed(&cluster, gang), "start default/a w-0@n0 w-1@n0 w-2@n1 w-3@n1 w-4@n1\n");
}

TEST(PlaceGang, RacksAreFilledButForOneSoThatOthersStayWhole) {
  FakeCluster cluster({{"rack"}, false});
  for (const char* rack : {"a", "b", "c", "d"}) {
    for (int i = 0; i < (*rack == 'c' ? 3 : 4); ++i) {
      cluster.state.SetNode(GpuNode(rack + std::to_string(i), 4, rack));
    }
  }
  EXPECT_EQ(Placed(&cluster, GpuGang("a", 7, 4, 1)),
            "start default/a w-0@a0 w-1@a1 w-2@a2 w-3@a3 w-4@c0 w-5@c1 w-6@c2\n")
      << "c holds the rest with least left";
  EXPECT_EQ(Placed(&cluster, GpuGang("b", 5, 4, 2)),
            "start default/b w-0@b0 w-1@b1 w-2@b2 w-3@b3 w-4@d0\n")
      << "three nodes of d stay together";
}

TEST(PlaceGang, RanksFollowTheTopologyAndCrossFewestRacks) {
  FakeCluster cluster({{"rack"}, false});
  const int nodes_of_rack[] = {2, 5, 1, 4};
  int next = 0;
  for (int rack = 0; rack < 4; ++rack) {
    for (int i = 0; i < nodes_of_rack[rack]; ++i) {
      // Names do not follow racks.
      cluster.state.SetNode(
          GpuNode("n" + std::to_string((next * 7) % 12), 1, "r" + std::to_string(rack)));
      ++next;
    }
  }
  cluster.state.Submit(GpuGang("a", 8, 1, 1));
  const RoundResult result = Round(&cluster.state, cluster.now, &cluster.memory);
  ASSERT_EQ(result.grants.size(), 1U);
  std::vector<std::string> racks;
  for (const PlacedPod& placed : result.grants[0].pods) {
    const NodeLedger& ledger = cluster.state.nodes();
    racks.push_back(ledger.domains().PathOf(ledger.DomainOf(*ledger.Find(placed.node))));
  }
  std::size_t hops = racks.front() == racks.back() ? 0 : 1;
  for (std::size_t i = 1; i < racks.size(); ++i) {
    hops += racks[i] == racks[i - 1] ? 0 : 1;
  }
  EXPECT_EQ(hops, 2U) << "two racks hold eight: a ring crosses between them twice";
  EXPECT_EQ(std::set<std::string>(racks.begin(), racks.end()), (std::set<std::string>{"r1", "r3"}));
}

}  // namespace
}  // namespace lockstep::control
