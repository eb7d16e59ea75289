#include <algorithm>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/turn_order.h"

// What queues and namespaces get of a cluster that is asked for more than it has.

namespace lockstep::control {
namespace {

GangRequest InQueue(GangRequest request, const std::string& queue) {
  request.queue = queue;
  return request;
}

int64_t HeldBy(const FakeCluster& cluster, const std::string& queue) {
  return cluster.state.queues().HeldBy(*cluster.state.queues().Find(queue)).gpu_count;
}

// Three queues by weight, gangs of 1 to `size_max` GPUs, more than there are GPUs from each.
void Saturate(uint64_t seed, int64_t size_max, FakeCluster* cluster) {
  Prng prng(seed);
  ASSERT_TRUE(
      cluster->state
          .SetQueues(
              {{.name = "a", .weight = 6}, {.name = "b", .weight = 3}, {.name = "c", .weight = 1}})
          .ok());
  cluster->state.SetNode(GpuNode("n1", 400));
  for (int i = 0; i < 900; ++i) {
    const auto gpus = 1 + static_cast<int64_t>(prng.Below(static_cast<uint64_t>(size_max)));
    cluster->state.Submit(InQueue(GpuGang("g" + std::to_string(i), 1, gpus, i),
                                  std::string(1, static_cast<char>('a' + i % 3))));
  }
}

TEST(FairShare, QueuesGetWhatTheirWeightSaysWithinOneGang) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    constexpr int64_t kSizeMax = 7;
    FakeCluster cluster;
    ASSERT_NO_FATAL_FAILURE(Saturate(seed, kSizeMax, &cluster));
    cluster.Step();
    EXPECT_NEAR(static_cast<double>(HeldBy(cluster, "a")), 240, kSizeMax) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(HeldBy(cluster, "b")), 120, kSizeMax) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(HeldBy(cluster, "c")), 40, kSizeMax) << "seed " << seed;
  }
}

// Of 20 starts its queue got one.
TEST(FairShare, GangThatCanNeverStartDoesNotWeighForItsQueue) {
  const std::map<std::string, int64_t> nominal = {{"nvidia.com/gpu", 10}};
  const GangRequest too_large_for_the_quota = InQueue(GpuGang("hopeless", 1, 100, 0), "a");
  const GangRequest too_large_for_a_node = InQueue(GpuGang("hopeless", 1, 15, 0), "a");
  GangRequest of_another_namespace = InQueue(GpuGang("hopeless", 10, 2, 0), "a");
  of_another_namespace.name = "others/hopeless";
  const std::string space =
      too_large_for_a_node.name.substr(0, too_large_for_a_node.name.find('/'));
  for (const GangRequest& hopeless :
       {too_large_for_the_quota, too_large_for_a_node, of_another_namespace}) {
    FakeCluster cluster;
    ASSERT_TRUE(cluster.state
                    .SetQueues({{.name = "a", .nominal = nominal, .namespaces = {space}},
                                {.name = "b", .nominal = nominal}})
                    .ok());
    cluster.state.SetNode(GpuNode("n1", 10));
    cluster.state.SetNode(GpuNode("n2", 10));
    cluster.state.Submit(hopeless);
    for (int i = 0; i < 20; ++i) {
      cluster.state.Submit(InQueue(GpuGang("a" + std::to_string(i), 1, 1, i + 1), "a"));
      cluster.state.Submit(InQueue(GpuGang("b" + std::to_string(i), 1, 1, i + 1), "b"));
    }
    cluster.Step();
    EXPECT_EQ(HeldBy(cluster, "a"), 10) << hopeless.name;
    EXPECT_EQ(HeldBy(cluster, "b"), 10) << hopeless.name;
    EXPECT_TRUE(cluster.state.Find(hopeless.name)->told.has_value()) << "it is told why";
  }
}

// Where nodes come for whoever asks, no gang fits before: all would come at once.
TEST(FairShare, GangThatAsksForNodesWaitsForItsTurn) {
  for (const AskStage stage : {AskStage::kNever, AskStage::kNext, AskStage::kOpen}) {
    FakeCluster cluster;
    ASSERT_TRUE(cluster.state.SetQueues({{.name = "a"}, {.name = "b"}}).ok());
    cluster.state.SetNode(GpuNode("n1", 10));
    GangRequest asks = InQueue(GpuGang("asks", 1, 15, 1), "a");
    asks.asking.stage = stage;
    cluster.state.Submit(asks);
    cluster.state.Submit(InQueue(GpuGang("fits", 1, 1, 0), "b"));
    TurnOrder order(cluster.state);
    const GangRecord* const first = order.Next();
    EXPECT_EQ(first->request.name, stage == AskStage::kNever ? asks.name : "default/fits");
  }
}

TEST(FairShare, SharesComeBackWhenGangsEnd) {
  FakeCluster cluster;
  ASSERT_NO_FATAL_FAILURE(Saturate(77, 4, &cluster));
  Prng prng(5);
  cluster.Step();
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> running;
    for (const auto& [name, gang] : cluster.state.gangs()) {
      if (gang.state == GangState::kRunning) {
        running.push_back(name);
      }
    }
    cluster.state.Remove(running[prng.Below(running.size())]);
    cluster.Step();
    EXPECT_NEAR(static_cast<double>(HeldBy(cluster, "a")), 240, 12) << i;
    EXPECT_NEAR(static_cast<double>(HeldBy(cluster, "c")), 40, 12) << i;
  }
}

// "g0 g1": who started in this round, in their turns.
std::string Started(FakeCluster* cluster) {
  const RoundResult result = Round(&cluster->state, cluster->now, &cluster->memory);
  std::string names;
  for (const Grant& grant : result.grants) {
    names += (names.empty() ? "" : " ") + grant.gang.substr(grant.gang.find('/') + 1);
  }
  return names;
}

// Two gangs of each of two queues, in this order, for a cluster that has room for two of the four.
void FillHalf(std::vector<QueueSpec> queues, FakeCluster* cluster) {
  ASSERT_TRUE(cluster->state.SetQueues(queues).ok());
  cluster->state.SetNode(GpuNode("n1", 8));
  cluster->state.Submit(InQueue(GpuGang("a1", 1, 4, 1), "a"));
  cluster->state.Submit(InQueue(GpuGang("a2", 1, 4, 2), "a"));
  cluster->state.Submit(InQueue(GpuGang("b1", 1, 4, 3), "b"));
  cluster->state.Submit(InQueue(GpuGang("b2", 1, 4, 4), "b"));
}

constexpr const char* kGpu = "nvidia.com/gpu";

TEST(FairShare, QueueThatHeldMoreOfLateComesLater) {
  FakeCluster cluster;
  ASSERT_NO_FATAL_FAILURE(FillHalf({{.name = "a"}, {.name = "b"}}, &cluster));
  EXPECT_EQ(Started(&cluster), "a1 b1") << "without a past";
  cluster.state.SetPastUse({{"a", {{kGpu, 8000}}}});
  EXPECT_EQ(Started(&cluster), "b1 b2");
  cluster.state.SetPastUse({{"a", {{kGpu, 2000}}}});
  EXPECT_EQ(Started(&cluster), "b1 a1") << "what b would hold is more than what a has had";
  cluster.state.SetPastUse({{"a", {{kGpu, 8000}}}, {"b", {{kGpu, 8000}}}});
  EXPECT_EQ(Started(&cluster), "a1 b1");
  cluster.state.SetPastUse({{"a", {{kGpu, 500}}}});
  EXPECT_EQ(Started(&cluster), "b1 a1") << "half a GPU counts, too";
}

// Of any number of GPUs.
TEST(FairShare, PastAndPresentAreOfOneScale) {
  FakeCluster cluster;
  ASSERT_TRUE(cluster.state.SetQueues({{.name = "a"}, {.name = "b"}}).ok());
  cluster.state.SetNode(GpuNode("n1", 1500));
  cluster.state.SetHolding(
      InQueue(GpuGang("runs", 1, 800, 1), "b"), {{"n1", {{0, 0, 800, {}}, 1}}}, {});
  cluster.state.Submit(InQueue(GpuGang("b1", 1, 4, 2), "b"));
  cluster.state.Submit(InQueue(GpuGang("a1", 1, 4, 3), "a"));
  cluster.state.SetPastUse({{"a", {{kGpu, 790'000}}}});
  EXPECT_EQ(Started(&cluster), "a1 b1");
  cluster.state.SetPastUse({{"a", {{kGpu, 810'000}}}});
  EXPECT_EQ(Started(&cluster), "b1 a1");
}

TEST(FairShare, PastCountsByWeight) {
  FakeCluster cluster;
  ASSERT_NO_FATAL_FAILURE(FillHalf({{.name = "a", .weight = 4}, {.name = "b"}}, &cluster));
  cluster.state.SetPastUse({{"a", {{kGpu, 6000}}}, {"b", {{kGpu, 2000}}}});
  EXPECT_EQ(Started(&cluster), "a1 b1");
}

TEST(FairShare, WhoIsWithinItsNominalAmountsComesFirstWhateverItHasHad) {
  FakeCluster cluster;
  ASSERT_NO_FATAL_FAILURE(FillHalf({{.name = "a", .nominal = {{kGpu, 4}}},
                                    {.name = "b", .nominal = {{kGpu, 0}}},
                                    {.name = "lends", .nominal = {{kGpu, 4}}}},
                                   &cluster));
  cluster.state.SetPastUse({{"a", {{kGpu, 8000}}}});
  EXPECT_EQ(Started(&cluster), "a1 b1");
  cluster.state.SetPastUse({{"b", {{kGpu, 8000}}}});
  EXPECT_EQ(Started(&cluster), "a1 a2");
}

// Its nominal amounts are its own: what it has had of those does not count where it borrows.
TEST(FairShare, PastUseOfNominalAmountsIsNotHeldAgainstAQueueThatBorrows) {
  FakeCluster cluster;
  ASSERT_TRUE(cluster.state
                  .SetQueues({{.name = "a", .nominal = {{kGpu, 3}}},
                              {.name = "b", .nominal = {{kGpu, 0}}},
                              {.name = "lends", .nominal = {{kGpu, 5}}}})
                  .ok());
  cluster.state.SetNode(GpuNode("n1", 8));
  cluster.state.Submit(InQueue(GpuGang("b1", 1, 1, 1), "b"));
  cluster.state.Submit(InQueue(GpuGang("a1", 1, 4, 2), "a"));
  EXPECT_EQ(Started(&cluster), "b1 a1") << "both would be over by one";
  cluster.state.SetPastUse({{"a", {{kGpu, 3000}}}, {"b", {{kGpu, 500}}}});
  EXPECT_EQ(Started(&cluster), "a1 b1");
  cluster.state.SetPastUse({{"a", {{kGpu, 3600}}}, {"b", {{kGpu, 500}}}});
  EXPECT_EQ(Started(&cluster), "b1 a1");
}

TEST(FairShare, PastIsKeptWhenQueuesAreSetAnew) {
  FakeCluster cluster;
  cluster.state.SetPastUse({{"a", {{kGpu, 8000}}}, {"gone", {{kGpu, 1}}}});
  ASSERT_NO_FATAL_FAILURE(FillHalf({{.name = "a"}, {.name = "b"}}, &cluster));
  EXPECT_EQ(Started(&cluster), "b1 b2");
  const uint64_t news = cluster.state.news();
  cluster.state.SetPastUse({});
  EXPECT_EQ(cluster.state.news(), news) << "it is looked at each minute, and asks for no round";
}

TEST(FairShare, NamespacesOfAQueueTakeTurns) {
  FakeCluster cluster;
  QueueSpec queue{.name = "default"};
  queue.ordering = QueueOrdering::kFairShare;
  ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
  cluster.state.SetNode(GpuNode("n1", 4));
  for (int i = 0; i < 4; ++i) {
    GangRequest request = GpuGang("x", 1, 1, i);
    request.name = "greedy/g" + std::to_string(i);
    cluster.state.Submit(request);
    request.name = "modest/g" + std::to_string(i);
    request.since = AtSecond(100 + i);
    cluster.state.Submit(request);
  }
  EXPECT_EQ(cluster.Step().substr(0, 121),
            "start greedy/g0 w-0@n1\nstart modest/g0 w-0@n1\n"
            "start greedy/g1 w-0@n1\nstart modest/g1 w-0@n1\n"
            "refuse greedy/g2: needs 1 GPU");
}

// "x/j0 y/k0 ...": those that wait, by their positions.
std::string InLine(FakeCluster* cluster) {
  std::string text;
  const RoundResult result = Round(&cluster->state, cluster->now, &cluster->memory);
  for (std::size_t i = 0; i < result.line.size(); ++i) {
    EXPECT_EQ(result.line[i].position, static_cast<int64_t>(i) + 1);
    text += (text.empty() ? "" : " ") + result.line[i].gang;
  }
  return text;
}

// A namespace's gangs stand where their turns would be if those ahead had got their places.
TEST(FairShare, PositionsAreThoseOfTheTurnsToCome) {
  FakeCluster cluster;
  QueueSpec queue{.name = "default"};
  queue.ordering = QueueOrdering::kFairShare;
  ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
  cluster.state.SetNode(GpuNode("n1", 8));
  const auto named = [](const std::string& name, int64_t gpus, int64_t since) {
    GangRequest request = GpuGang("x", 1, gpus, since);
    request.name = name;
    return request;
  };
  cluster.state.SetRunning(named("x/r", 4, 0), {{"w-0", "n1"}}, {});
  cluster.state.SetRunning(named("y/r", 4, 0), {{"w-0", "n1"}}, {});
  for (int i = 0; i < 4; ++i) {
    cluster.state.Submit(named("x/j" + std::to_string(i), 2, 10 + i));
    cluster.state.Submit(named("y/k" + std::to_string(i), i == 0 ? 4 : 2, 20 + i));
  }
  EXPECT_EQ(InLine(&cluster), "x/j0 y/k0 x/j1 x/j2 y/k1 x/j3 y/k2 y/k3");

  cluster.state.Remove("x/r");
  cluster.state.Remove("y/r");
  EXPECT_EQ(cluster.Step().substr(0, 72),
            "start x/j0 w-0@n1\nstart y/k0 w-0@n1\nstart x/j1 w-0@n1\nrefuse x/j2: needs");
  EXPECT_EQ(InLine(&cluster), "x/j2 y/k1 x/j3 y/k2 y/k3");
}

TEST(FairShare, WhoHasRoomKeptIsFirstWhateverItsNamespaceHolds) {
  FakeCluster cluster;
  QueueSpec queue{.name = "default"};
  queue.ordering = QueueOrdering::kFairShare;
  ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
  cluster.state.SetNode(GpuNode("n1", 4));
  const auto add = [&](const std::string& name, int64_t since) {
    GangRequest request = GpuGang("x", 1, 4, since);
    request.name = name;
    cluster.state.Submit(request);
  };
  cluster.state.SetRunning(GpuGang("goes", 1, 4, 0), {{"w-0", "n1"}}, {});
  add("x/claims", 1);
  add("x/next", 2);
  add("y/other", 3);
  cluster.state.Apply({OperationKind::kEvict, "default/goes", "x/claims"}, cluster.now);
  cluster.state.Apply({OperationKind::kClaim, "x/claims", {}, {{"w-0", "n1"}}}, cluster.now);
  EXPECT_EQ(InLine(&cluster), "x/claims y/other x/next");
}

TEST(FairShare, QueueWithinItsNominalComesBeforeOneThatBorrows) {
  FakeCluster cluster;
  ASSERT_TRUE(cluster.state
                  .SetQueues({{.name = "a", .nominal = {{"nvidia.com/gpu", 6}}},
                              {.name = "b", .nominal = {{"nvidia.com/gpu", 2}}}})
                  .ok());
  cluster.state.SetNode(GpuNode("n1", 8));
  for (int i = 0; i < 10; ++i) {
    cluster.state.Submit(InQueue(GpuGang("b" + std::to_string(i), 1, 1, i), "b"));
    cluster.state.Submit(InQueue(GpuGang("a" + std::to_string(i), 1, 1, 100 + i), "a"));
  }
  cluster.Step();
  EXPECT_EQ(HeldBy(cluster, "a"), 6);
  EXPECT_EQ(HeldBy(cluster, "b"), 2);
}

TEST(FairShare, QueuesBelowOneAreOrderedAsItSays) {
  FakeCluster cluster;
  QueueSpec dept{.name = "dept"};
  dept.ordering = QueueOrdering::kPriority;
  ASSERT_TRUE(
      cluster.state
          .SetQueues({dept, {.name = "x", .parent = "dept"}, {.name = "y", .parent = "dept"}})
          .ok());
  cluster.state.SetNode(GpuNode("n1", 1));
  cluster.state.Submit(InQueue(GpuGang("early", 1, 1, 1), "x"));
  GangRequest urgent = InQueue(GpuGang("urgent", 1, 1, 2), "y");
  urgent.priority = 5;
  cluster.state.Submit(urgent);
  EXPECT_EQ(cluster.Step(),
            "start default/urgent w-0@n1\nrefuse default/early: needs 1 GPU, 0 free on 1 node\n");
}

}  // namespace
}  // namespace lockstep::control
