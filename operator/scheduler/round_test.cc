#include "operator/scheduler/round.h"

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

TEST(Round, GangsStartInTheOrderInWhichTheyCame) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.Submit(GpuGang("second", 4, 1, 2));
  cluster.state.Submit(GpuGang("first", 2, 2, 1));
  EXPECT_EQ(cluster.Step(),
            "start default/first w-0@n1 w-1@n1\n"
            "start default/second w-0@n2 w-1@n2 w-2@n2 w-3@n2\n");
  EXPECT_EQ(cluster.Step(), "");
}

TEST(Round, RefusalNamesWhatIsMissingOnceAndAgainWhenItChanges) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  SnapshotNode cordoned = GpuNode("n2", 8);
  cordoned.state = NodeState::kCordoned;
  cluster.state.SetNode(cordoned);
  cluster.state.Submit(GpuGang("a", 5, 1, 1));
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: needs 5 GPUs, 4 free on 1 node; 1 of 2 nodes is cordoned\n");
  EXPECT_EQ(cluster.Step(), "") << "it has been told";

  cluster.state.SetStrangers("n1", {{0, 0, 1, {}}, 1});
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: needs 5 GPUs, 3 free on 1 node; 1 of 2 nodes is cordoned\n");
  cordoned.state = NodeState::kOpen;
  cluster.state.SetNode(cordoned);
  EXPECT_EQ(cluster.Step(), "start default/a w-0@n2 w-1@n2 w-2@n2 w-3@n2 w-4@n2\n");
}

TEST(Round, WhatEndedIsFreeAndWhatStrangersHoldIsNot) {
  FakeCluster cluster;
  SnapshotNode node = GpuNode("n1", 4);
  node.used = {0, 0, 1, {}};
  cluster.state.SetNode(node);
  cluster.state.SetRunning(
      GpuGang("old", 3, 1, 0), {{"w-0", "n1"}, {"w-1", "n1"}, {"w-2", "n1"}}, {AtSecond(0), {}, 0});
  cluster.state.Submit(GpuGang("new", 3, 1, 1));
  EXPECT_EQ(cluster.Step(), "refuse default/new: needs 3 GPUs, 0 free on 1 node\n");
  cluster.state.Remove("default/old");
  EXPECT_EQ(cluster.Step(), "start default/new w-0@n1 w-1@n1 w-2@n1\n");
}

TEST(Round, WhoPausesKeepsItsPlaceAndDoesNotStart) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  GangRequest first = GpuGang("first", 4, 1, 1);
  first.standing = Standing::kPausing;
  cluster.state.Submit(first);
  cluster.state.Submit(GpuGang("second", 1, 1, 2));
  EXPECT_EQ(cluster.Step(),
            "refuse default/second: waits behind default/first, which needs 4 GPUs\n");

  first.standing = Standing::kReady;
  cluster.state.Submit(first);
  EXPECT_EQ(cluster.Step(),
            "start default/first w-0@n1 w-1@n1 w-2@n1 w-3@n1\n"
            "refuse default/second: needs 1 GPU, 0 free on 1 node\n");
}

TEST(Round, WhoStandsAsideHoldsUpNobodyAndStartsAllTheSame) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetRunning(GpuGang("old", 1, 1, 0), {{"w-0", "n1"}}, {});
  GangRequest first = GpuGang("first", 4, 1, 1);
  first.standing = Standing::kAside;
  cluster.state.Submit(first);
  cluster.state.Submit(GpuGang("second", 2, 1, 2));
  EXPECT_EQ(cluster.Step(),
            "start default/second w-0@n1 w-1@n1\n"
            "refuse default/first: needs 4 GPUs, 1 free on 1 node\n");

  cluster.state.Remove("default/second");
  cluster.state.Remove("default/old");
  EXPECT_EQ(cluster.Step(), "start default/first w-0@n1 w-1@n1 w-2@n1 w-3@n1\n");
}

// "a1 b2": the gangs of the line by their numbers.
std::string LineOf(FakeCluster* cluster) {
  const RoundResult result = Round(&cluster->state, cluster->now, &cluster->memory);
  std::string line;
  for (const LinePosition& one : result.line) {
    line += (line.empty() ? "" : " ") + one.gang.substr(one.gang.find('/') + 1) +
            std::to_string(one.position);
  }
  return line;
}

TEST(Round, WhoWaitsOnIsNumberedByItsQueuesOrder) {
  FakeCluster cluster;
  QueueSpec ranked;
  ranked.name = "ranked";
  ranked.ordering = QueueOrdering::kPriority;
  ASSERT_TRUE(cluster.state.SetQueues({ranked}).ok());
  cluster.state.SetNode(GpuNode("n1", 4));
  const auto add = [&](const std::string& name, int64_t gpus, int64_t since, auto change) {
    GangRequest request = GpuGang(name, 1, gpus, since);
    change(&request);
    cluster.state.Submit(request);
  };
  const auto as_it_is = [](GangRequest*) {};
  add("starts", 1, 1, as_it_is);
  add("head", 4, 2, as_it_is);
  add("aside", 4, 3, [](GangRequest* one) { one->standing = Standing::kAside; });
  add("pauses", 1, 4, [](GangRequest* one) { one->standing = Standing::kPausing; });
  add("next", 4, 5, as_it_is);
  add("low", 4, 6, [](GangRequest* one) { one->queue = "ranked"; });
  add("high", 4, 7, [](GangRequest* one) {
    one->queue = "ranked";
    one->priority = 10;
  });
  add("lost", 1, 8, [](GangRequest* one) { one->queue = "gone"; });
  add("unknown", 1, 9, [](GangRequest* one) { one->missing_class = "no such class"; });

  EXPECT_EQ(LineOf(&cluster), "high1 low2 head1 pauses2 next3");
}

// The first of those that can start is the next.
TEST(Round, WhoCannotStartAsThingsAreIsNotInLine) {
  FakeCluster cluster;
  ASSERT_TRUE(cluster.state
                  .SetQueues({{.name = "small",
                               .nominal = {{"nvidia.com/gpu", 8}},
                               .borrowing_limit = {{"nvidia.com/gpu", 0}}}})
                  .ok());
  cluster.state.SetNode(GpuNode("n1", 8));
  cluster.state.SetRunning(GpuGang("old", 1, 8, 0), {{"w-0", "n1"}}, {});
  const auto add = [&](const std::string& name, int pods, const std::string& queue) {
    GangRequest request = GpuGang(name, pods, 1, 1);
    request.queue = queue;
    request.topology.required = name == "b-level" ? "no-level" : "";
    request.asking.stage = name == "c-asks" ? AskStage::kOpen : AskStage::kNever;
    cluster.state.Submit(request);
  };
  add("a-large", 9, "");
  add("b-level", 1, "");
  add("c-asks", 9, "");
  add("d-next", 8, "");
  add("e-large", 9, "small");
  add("f-next", 8, "small");
  EXPECT_EQ(LineOf(&cluster), "f-next1 c-asks1 d-next2") << "who asks may start on new nodes";
}

// It starts as soon as the others have gone: nobody of its queue does before.
TEST(Round, WhoHasRoomKeptForItIsFirstInLine) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetRunning(GpuGang("goes", 1, 4, 0), {{"w-0", "n1"}}, {});
  cluster.state.Submit(GpuGang("old", 1, 4, 1));
  cluster.state.Submit(GpuGang("claims", 1, 4, 2));
  cluster.state.Apply({OperationKind::kEvict, "default/goes", "default/claims"}, cluster.now);
  cluster.state.Apply({OperationKind::kClaim, "default/claims", {}, {{"w-0", "n1"}}}, cluster.now);
  EXPECT_EQ(LineOf(&cluster), "claims1 old2");

  cluster.state.Remove("default/goes");
  EXPECT_EQ(LineOf(&cluster), "old1") << "the other starts";
}

TEST(Round, WhatARunningGangHoldsIsWhatItsPodsDo) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  GangRequest running;
  running.name = "default/old";
  cluster.state.SetHolding(running, {{"n1", {{0, 0, 3, {}}, 1}}}, {});
  EXPECT_EQ(cluster.state.Find("default/old")->total.gpu_count, 3);
  cluster.state.Submit(GpuGang("a", 2, 1, 1));
  EXPECT_EQ(cluster.Step(), "refuse default/a: needs 2 GPUs, 1 free on 1 node\n");
}

TEST(Round, WhoAsksIsToldHowThingsStandNow) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.Submit(GpuGang("a", 5, 1, 1));
  cluster.state.Submit(GpuGang("b", 6, 1, 2));
  cluster.Step();
  cluster.state.SetStrangers("n1", {{0, 0, 1, {}}, 1});
  cluster.options.refreshed_max = 0;
  const RoundResult others = Round(&cluster.state, cluster.now, &cluster.memory, cluster.options);
  EXPECT_EQ(others.outdated_count, 2U);
  cluster.options.asked = "default/b";
  EXPECT_EQ(cluster.Step(),
            "refuse default/b: needs 6 GPUs, 3 free on 1 node; the gang would not fit even if the "
            "cluster had no other jobs, because it has room for only 3 w pods\n");
}

TEST(Round, WhoWaitsForSomethingElseNowIsToldInTurns) {
  FakeCluster cluster;
  QueueSpec queue{.name = "default"};
  queue.nominal = {{"nvidia.com/gpu", 3}};
  queue.borrowing_limit = {{"nvidia.com/gpu", 0}};
  ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetRunning(
      GpuGang("old", 4, 1, 0), {{"w-0", "n1"}, {"w-1", "n1"}, {"w-2", "n1"}, {"w-3", "n1"}}, {});
  cluster.state.Submit(GpuGang("a", 1, 2, 1));
  cluster.state.Submit(GpuGang("b", 1, 3, 2));
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: queue default would be 3 GPUs over its nominal 3: it borrows 1 GPU, "
            "and may borrow none\n"
            "refuse default/b: waits behind default/a, which needs 2 GPUs of the queue's quota\n");

  ASSERT_TRUE(cluster.state.SetQueues({QueueSpec{.name = "default"}}).ok());
  cluster.options.reworded_max = 1;
  cluster.options.refreshed_max = 0;
  EXPECT_EQ(Round(&cluster.state, cluster.now, &cluster.memory, cluster.options).outdated_count,
            1U);
  EXPECT_EQ(cluster.Step(), "refuse default/a: needs 2 GPUs, 0 free on 1 node\n");
  EXPECT_EQ(cluster.Step(), "refuse default/b: needs 3 GPUs, 0 free on 1 node\n");
}

TEST(Round, PodsMayBeSeenBeforeTheirNode) {
  FakeCluster cluster;
  cluster.state.SetRunning(GpuGang("a", 2, 1, 0), {{"w-0", "n1"}, {"w-1", "n1"}}, {});
  cluster.state.Submit(GpuGang("b", 3, 1, 1));
  EXPECT_EQ(cluster.Step(), "refuse default/b: the cluster has no nodes\n");
  cluster.state.SetNode(GpuNode("n1", 4));
  EXPECT_EQ(cluster.Step(), "refuse default/b: needs 3 GPUs, 2 free on 1 node\n");
  cluster.state.RemoveNode("n1");
  EXPECT_EQ(cluster.Step(), "refuse default/b: the cluster has no nodes\n");
}

TEST(Round, PortsOfNodesAreHeldLikeResources) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  GangRequest request = GpuGang("a", 2, 1, 1);
  request.gang.classes[0].request.Set(HostPortResource(80), 1);
  cluster.state.Submit(request);
  request.name = "default/b";
  cluster.state.Submit(request);
  EXPECT_EQ(cluster.Step(),
            "start default/a w-0@n1 w-1@n2\n"
            "refuse default/b: needs 2 hostPort:80, 0 free on 2 nodes\n");
}

TEST(Round, QueueThatDoesNotExistIsSaid) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  ASSERT_TRUE(cluster.state.SetQueues({{.name = "dept"}, {.name = "ml", .parent = "dept"}}).ok());
  GangRequest request = GpuGang("a", 1, 1, 1);
  request.queue = "vision";
  cluster.state.Submit(request);
  request.name = "default/b";
  request.queue = "dept";
  cluster.state.Submit(request);
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: queue vision does not exist\nrefuse default/b: queue dept has "
            "queues below it: name one of those queues\n");
  ASSERT_TRUE(cluster.state.SetQueues({{.name = "vision"}}).ok());
  EXPECT_EQ(cluster.Step(),
            "start default/a w-0@n1\nrefuse default/b: queue dept does not exist\n");
}

TEST(Round, QueueIsForTheNamespacesThatItAndThoseAboveItName) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  const auto set = [&](std::set<std::string> above, std::set<std::string> below) {
    ASSERT_TRUE(
        cluster.state
            .SetQueues({{.name = "research", .namespaces = std::move(above)},
                        {.name = "vision", .parent = "research", .namespaces = std::move(below)}})
            .ok());
  };
  set({}, {"blue", "green"});
  GangRequest gang = GpuGang("a", 1, 1, 1);
  gang.queue = "vision";
  cluster.state.Submit(gang);
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: queue vision is for jobs of namespaces blue, green; this job is in "
            "default\n");
  EXPECT_EQ(cluster.state.Find("default/a")->told->constraint, Constraint::kNamespace);
  cluster.state.Submit(GpuGang("b", 4, 1, 2));
  EXPECT_EQ(cluster.Step(), "start default/b w-0@n1 w-1@n1 w-2@n1 w-3@n1\n") << "nobody is held up";
  cluster.state.Remove("default/b");

  set({"red"}, {"blue", "default"});
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: queue vision is below research, which is for jobs of namespace red; "
            "this job is in default\n");
  set({"1", "2", "3", "4", "5", "6"}, {});
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: queue vision is below research, which is for jobs of namespaces 1, "
            "2, 3, 4, 5 and 1 more; this job is in default\n");
  set({"default"}, {"default"});
  EXPECT_EQ(cluster.Step(), "start default/a w-0@n1\n");
}

TEST(Round, QueueThatIsNotServedSaysWhyAndServesNobody) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  ASSERT_TRUE(
      cluster.state
          .SetQueues({}, {{"vision", "its parent is not there"}, {"default", "it cannot be read"}})
          .ok());
  GangRequest request = GpuGang("a", 1, 1, 1);
  request.queue = "vision";
  cluster.state.Submit(request);
  request.name = "default/b";
  request.queue = "";
  cluster.state.Submit(request);
  EXPECT_EQ(cluster.Step(),
            "refuse default/a: queue vision is not served: its parent is not there\n"
            "refuse default/b: queue default is not served: it cannot be read\n");
  ASSERT_TRUE(cluster.state.SetQueues({}).ok());
  EXPECT_EQ(cluster.Step(),
            "start default/b w-0@n1\nrefuse default/a: queue vision does not exist\n");
}

// Everything that can happen to a state, at random.
class EventLog {
 public:
  explicit EventLog(uint64_t seed) : prng_(seed) {}

  void NextEvent(ClusterState* state) {
    const std::string node = "n" + std::to_string(prng_.Below(8));
    const std::string gang = "g" + std::to_string(prng_.Below(12));
    switch (prng_.Below(8)) {
      case 0:
      case 1:
        state->SetNode(RandomNode(node));
        return;
      case 2:
        state->SetStrangers(node, {{0, 0, Amount(3), {}}, Amount(2)});
        return;
      case 3:
        state->Remove("default/" + gang);
        return;
      case 4:
        if (prng_.Below(4) == 0) {
          state->RemoveNode(node);
          return;
        }
        [[fallthrough]];
      default:
        state->Submit(RandomGang(gang));
    }
  }

  SnapshotNode RandomNode(const std::string& name) {
    SnapshotNode node = GpuNode(name, 2 + Amount(7), "r" + std::to_string(prng_.Below(3)));
    node.used = {0, 0, Amount(2), {}};
    node.suspicion = prng_.Below(6) == 0 ? 1 : 0;
    if (prng_.Below(6) == 0) {
      node.taints = {{"gpu", "", "NoSchedule"}};
    }
    node.state = prng_.Below(8) == 0 ? NodeState::kCordoned : NodeState::kOpen;
    return node;
  }

  GangRequest RandomGang(const std::string& name) {
    GangRequest request =
        GpuGang(name, 1 + static_cast<int>(prng_.Below(5)), 1 + Amount(3), ++second_);
    if (prng_.Below(3) == 0) {
      request.gang.classes.push_back(MakeClass("ps", 1, {0, 0, 1 + Amount(2), {}}));
    }
    if (prng_.Below(3) == 0) {
      request.topology.required = "rack";
    } else if (prng_.Below(4) == 0) {
      request.topology.apart = "rack";
    }
    if (prng_.Below(4) == 0) {
      request.gang.classes[0].tolerations = {{"gpu", true, "", ""}};
    }
    request.queue = prng_.Below(2) == 0 ? "a" : "b";
    request.priority = Amount(3);
    return request;
  }

 private:
  int64_t Amount(uint64_t bound) { return static_cast<int64_t>(prng_.Below(bound)); }

  Prng prng_;
  int64_t second_ = 0;
};

std::vector<QueueSpec> TwoQueues() {
  QueueSpec a{.name = "a", .nominal = {{"nvidia.com/gpu", 12}}};
  a.preempts_lower_priority = true;
  a.reclaims = true;
  a.ordering = QueueOrdering::kPriority;
  QueueSpec b{.name = "b", .nominal = {{"nvidia.com/gpu", 20}}, .weight = 2};
  b.reclaims = true;
  b.ordering = QueueOrdering::kFairShare;
  return {a, b};
}

// All that is said along one event log. `spin`: nodes become known in another order before it.
std::string Told(uint64_t seed, bool spin, int repeats) {
  FakeCluster cluster({{"rack"}, false});
  EXPECT_TRUE(cluster.state.SetQueues(TwoQueues()).ok());
  for (int i = 0; i < 8; ++i) {
    const int index = spin ? (3 * i + 5) % 8 : i;
    cluster.state.SetNode(GpuNode("n" + std::to_string(index), 0));
  }
  EventLog events(seed);
  std::string told;
  for (int step = 0; step < 60; ++step) {
    events.NextEvent(&cluster.state);
    cluster.now += std::chrono::seconds(10);
    for (int i = 1; i < repeats; ++i) {
      Round(&cluster.state, cluster.now, &cluster.memory);
    }
    told += cluster.Step();
    for (const GangRecord* const leaving : std::vector<const GangRecord*>(
             cluster.state.leaving().begin(), cluster.state.leaving().end())) {
      GangRequest again = leaving->request;
      if (step % 3 == 0) {
        cluster.state.Submit(again);
      }
    }
  }
  return told;
}

TEST(Round, SameEventsGiveTheSameBytesInWhateverOrderNodesBecameKnown) {
  int evictions = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string told = Told(seed, false, 1);
    ASSERT_EQ(Told(seed, false, 1), told) << "seed " << seed;
    ASSERT_EQ(Told(seed, true, 1), told) << "seed " << seed;
    evictions += told.find("evict") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(evictions, 30) << "or the comparison says little of evictions";
}

TEST(Round, LeavesTheStateAsItWas) {
  for (uint64_t seed = 100; seed < 160; ++seed) {
    ASSERT_EQ(Told(seed, false, 3), Told(seed, false, 1)) << "seed " << seed;
  }
}

// The whole path of a state is its events and the operations of its rounds: done again from their
// records they lead to a state that answers alike.
TEST(Round, OperationsDoneAgainLeadToTheSameState) {
  for (uint64_t seed = 200; seed < 240; ++seed) {
    FakeCluster first({{"rack"}, false});
    FakeCluster second({{"rack"}, false});
    EventLog first_events(seed);
    EventLog second_events(seed);
    for (FakeCluster* const cluster : {&first, &second}) {
      ASSERT_TRUE(cluster->state.SetQueues(TwoQueues()).ok());
    }
    for (int step = 0; step < 40; ++step) {
      first_events.NextEvent(&first.state);
      second_events.NextEvent(&second.state);
      const RoundResult result = Round(&first.state, first.now, &first.memory);
      Commit(result, first.now, &first.state);
      for (const Operation& operation : result.log) {
        second.state.Apply(operation, first.now);
      }
    }
    first_events.NextEvent(&first.state);
    second_events.NextEvent(&second.state);
    const RoundResult of_first = Round(&first.state, first.now, &first.memory);
    const RoundResult of_second = Round(&second.state, first.now, &second.memory);
    ASSERT_EQ(of_second.log, of_first.log) << "seed " << seed;
  }
}

TEST(Round, GangThatIsTooLargeForTheWholeClusterIsToldHowLargeItMayBe) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.SetRunning(GpuGang("old", 4, 1, 0),
                           {{"w-0", "n1"}, {"w-1", "n1"}, {"w-2", "n1"}, {"w-3", "n1"}},
                           {AtSecond(0), {}, 0});
  cluster.state.Submit(GpuGang("fits", 8, 1, 1));
  cluster.state.Submit(GpuGang("vast", 9, 1, 2));
  EXPECT_EQ(cluster.Step(),
            "refuse default/fits: needs 8 GPUs, 4 free on 1 node\nrefuse default/vast: needs 9 "
            "GPUs, 4 free on 1 node; the gang would not fit even if the cluster had no other jobs, "
            "because it has room for only 8 w pods\n");
}

TEST(Round, GangsOfOneSecondHaveTheirTurnsByName) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 2));
  cluster.state.Submit(GpuGang("job-2", 2, 1, 1));
  cluster.state.Submit(GpuGang("job-1", 2, 1, 1));
  EXPECT_EQ(cluster.Step(),
            "start default/job-1 w-0@n1 w-1@n1\n"
            "refuse default/job-2: needs 2 GPUs, 0 free on 1 node\n");
}

}  // namespace
}  // namespace lockstep::control
