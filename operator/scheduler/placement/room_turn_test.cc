#include "operator/scheduler/placement/room_turn.h"

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_gangs.h"

// First come, first served, without starvation: a younger gang runs beside older ones that wait
// only where none of them waits a moment longer for it.

namespace lockstep::control {
namespace {

TEST(Turn, GangsOfFiveFiveAndThreeOnEightGpus) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  int second = 0;
  for (const int pods : {5, 5, 3, 3}) {
    ++second;
    cluster.state.Submit(GpuGang("g" + std::to_string(second), pods, 1, second));
  }
  EXPECT_EQ(cluster.Step(),
            "start default/g1 w-0@n1 w-1@n1 w-2@n1 w-3@n1 w-4@n2\n"
            "start default/g3 w-0@n2 w-1@n2 w-2@n2\n"
            "refuse default/g2: needs 5 GPUs, 0 free on 2 nodes\n"
            "refuse default/g4: needs 3 GPUs, 0 free on 2 nodes\n");
  cluster.state.Remove("default/g1");
  EXPECT_EQ(cluster.Step(), "start default/g2 w-0@n1 w-1@n1 w-2@n1 w-3@n1 w-4@n2\n")
      << "what g4 was told still holds";
}

TEST(Turn, WhoIsWaitedForIsNamed) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 8));
  cluster.state.SetRunning(GpuGang("g0", 1, 5, 0), {{"w-0", "n1"}}, {});
  cluster.state.Submit(GpuGang("g1", 5, 1, 1));
  cluster.state.Submit(GpuGang("g2", 3, 1, 2));
  cluster.state.SetStrangers("n1", {{0, 0, 2, {}}, 1});
  EXPECT_EQ(cluster.Step(),
            "refuse default/g1: needs 5 GPUs, 1 free on 1 node\n"
            "refuse default/g2: needs 3 GPUs, 1 free on 1 node\n");
  cluster.state.SetRunning(GpuGang("g0", 1, 2, 0), {{"w-0", "n1"}}, {});
  EXPECT_EQ(cluster.Step(),
            "refuse default/g1: needs 5 GPUs, 4 free on 1 node\n"
            "refuse default/g2: waits behind default/g1, which needs 5 GPUs\n");
}

TEST(Turn, GangThatCanNeverFitHoldsUpNobody) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 8));
  for (int i = 0; i < 100; ++i) {
    cluster.state.Submit(GpuGang("never" + std::to_string(i), 9, 1, i));
  }
  cluster.state.Submit(GpuGang("b", 8, 1, 100));
  EXPECT_NE(cluster.Step().find("start default/b"), std::string::npos);
}

// A younger one has slipped in while a node was cordoned, or while the older paused.
TEST(Turn, OneThatSlippedInIsNoLicenceForOthers) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.Submit(GpuGang("older", 8, 1, 1));
  cluster.state.SetRunning(GpuGang("younger", 2, 1, 2), {{"w-0", "n1"}, {"w-1", "n1"}}, {});
  cluster.state.Submit(GpuGang("youngest", 2, 1, 3));
  EXPECT_EQ(cluster.Step(),
            "refuse default/older: needs 8 GPUs, 6 free on 2 nodes\n"
            "refuse default/youngest: waits behind default/older, which needs 8 GPUs\n");

  cluster.state.Remove("default/younger");
  EXPECT_NE(cluster.Step().find("start default/older"), std::string::npos);
}

// What the older cannot use anyway is anybody's.
TEST(Turn, NodesThatTheOlderCannotUseAreForTheYoungestAllTheSame) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.SetNode(GpuNode("n3", 1));
  cluster.state.Submit(GpuGang("older", 4, 2, 1));
  cluster.state.SetRunning(GpuGang("younger", 1, 1, 2), {{"w-0", "n1"}}, {});
  cluster.state.Submit(GpuGang("youngest", 1, 1, 3));
  EXPECT_NE(cluster.Step().find("start default/youngest w-0@n3"), std::string::npos);
}

TEST(Turn, GangThatWaitsForStrangersHoldsUpNobody) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetNode(GpuNode("n2", 4));
  cluster.state.SetStrangers("n1", {{0, 0, 2, {}}, 1});
  cluster.state.Submit(GpuGang("a", 7, 1, 1));
  cluster.state.Submit(GpuGang("b", 6, 1, 2));
  EXPECT_EQ(cluster.Step(),
            "start default/b w-0@n1 w-1@n1 w-2@n2 w-3@n2 w-4@n2 w-5@n2\nrefuse default/a: needs 7 "
            "GPUs, 0 free on 2 nodes; the gang would not fit even if the cluster had no other "
            "jobs, because it has room for only 6 w pods\n");
}

TEST(Turn, AnotherPlaceIsTakenWhereTheFirstWouldBeInTheWay) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n0", 9));
  cluster.state.SetNode(GpuNode("n1", 2));
  cluster.state.SetRunning(GpuGang("a", 1, 3, 0), {{"w-0", "n0"}}, {});
  cluster.state.Submit(GpuGang("b", 5, 2, 1));  // later: four on n0, one on n1
  cluster.state.Submit(GpuGang("c", 1, 1, 2));
  // n1 is the tighter fit, but only n0 has a GPU to spare.
  EXPECT_NE(cluster.Step().find("start default/c w-0@n0"), std::string::npos);
}

TEST(Turn, BehindTooManyThatWouldFitNobodyIsLookedAt) {
  FakeCluster cluster;
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.SetRunning(
      GpuGang("x", 3, 1, 0), {{"w-0", "n1"}, {"w-1", "n1"}, {"w-2", "n1"}}, {});
  for (int i = 0; i <= static_cast<int>(kAheadMax) + 1; ++i) {
    cluster.state.Submit(GpuGang("g" + std::to_string(100 + i), 2, 1, 1 + i));
  }
  cluster.state.Submit(GpuGang("last", 1, 1, 1000));
  EXPECT_NE(cluster.Step().find(
                "refuse default/last: waits behind default/g100 and at least 64 other jobs"),
            std::string::npos);
}

TEST(Turn, WhoIsBeforeByPriorityDoesNotWaitForThoseBehind) {
  FakeCluster cluster;
  QueueSpec queue{.name = "default"};
  queue.ordering = QueueOrdering::kPriority;
  ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
  cluster.state.SetNode(GpuNode("n1", 4));
  cluster.state.Submit(GpuGang("low", 4, 1, 1));
  GangRequest high = GpuGang("high", 1, 1, 2);
  high.priority = 10;
  cluster.state.Submit(high);
  EXPECT_EQ(cluster.Step(),
            "start default/high w-0@n1\nrefuse default/low: needs 4 GPUs, 3 free on 1 node\n");
}

GangRequest RandomGang(Prng* prng, int number) {
  const auto upto = [&](uint64_t bound) { return 1 + static_cast<int64_t>(prng->Below(bound)); };
  GangRequest request =
      GpuGang("g" + std::to_string(number), static_cast<int>(upto(5)), upto(3), number);
  if (prng->Below(4) == 0) {
    PodClass ps;
    ps.name = "ps";
    ps.pods = {"ps-0"};
    ps.request = {0, 0, upto(2), {}};
    request.gang.classes.push_back(ps);
  }
  if (prng->Below(4) == 0) {
    request.topology.required = "rack";
  }
  return request;
}

// A cluster with the gangs that run, as somebody would see it who keeps no counts.
class Watched {
 public:
  Watched() : cluster_({{"rack"}, false}) {
    for (int i = 0; i < 4; ++i) {
      nodes_.push_back(GpuNode("n" + std::to_string(i), 2 + 2 * i, i < 2 ? "r1" : "r2"));
      cluster_.state.SetNode(nodes_.back());
    }
  }

  ClusterState& state() { return cluster_.state; }

  std::vector<Grant> Step() {
    const RoundResult result = Round(&cluster_.state, cluster_.now, &cluster_.memory);
    Commit(result, cluster_.now, &cluster_.state);
    for (const Grant& grant : result.grants) {
      running_[grant.gang] = grant.pods;
    }
    return result.grants;
  }

  void End(const std::string& gang) {
    running_.erase(gang);
    cluster_.state.Remove(gang);
  }

  const std::map<std::string, PlacedPods>& running() const { return running_; }

  // Whether the gang would start if everything older had ended and nobody else waited.
  bool FitsWhenOlderEnd(const GangRecord& gang) const {
    FakeCluster later({{"rack"}, false});
    for (const SnapshotNode& node : nodes_) {
      later.state.SetNode(node);
    }
    for (const auto& [name, pods] : running_) {
      const GangRecord& other = *cluster_.state.Find(name);
      if (IsOlder(gang, other)) {
        later.state.SetRunning(other.request, pods, {});
      }
    }
    later.state.Submit(gang.request);
    return later.Step().find("start") != std::string::npos;
  }

  bool FitsEmpty(const GangRecord& gang) const {
    FakeCluster empty({{"rack"}, false});
    for (const SnapshotNode& node : nodes_) {
      empty.state.SetNode(node);
    }
    empty.state.Submit(gang.request);
    return empty.Step().find("start") != std::string::npos;
  }

 private:
  FakeCluster cluster_;
  std::vector<SnapshotNode> nodes_;
  std::map<std::string, PlacedPods> running_;
};

// Whatever comes and goes: a gang that fits the empty cluster always fits what younger ones leave,
// so it starts at the latest when all older ones have ended.
TEST(Turn, NobodyIsStarvedByYoungerOnes) {
  int overtakings = 0;
  int waits = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Prng prng(seed);
    Watched watched;
    for (int step = 0; step < 30; ++step) {
      if (step < 20) {
        watched.state().Submit(RandomGang(&prng, step));
      }
      std::vector<std::string> names;
      for (const auto& [name, pods] : watched.running()) {
        names.push_back(name);
      }
      for (const std::string& name : names) {
        if (prng.Below(5) == 0) {
          watched.End(name);
        }
      }
      for (const Grant& grant : watched.Step()) {
        for (const GangRecord* const waiting : watched.state().waiting()[1]) {
          overtakings += IsOlder(*waiting, *watched.state().Find(grant.gang)) ? 1 : 0;
        }
      }
      for (const GangRecord* const waiting : watched.state().waiting()[1]) {
        ++waits;
        ASSERT_TRUE(watched.FitsWhenOlderEnd(*waiting) || !watched.FitsEmpty(*waiting))
            << "seed " << seed << ", step " << step << ": " << waiting->request.name;
      }
    }
  }
  EXPECT_GT(overtakings, 100) << "or nobody could have been starved";
  EXPECT_GT(waits, 1000);
}

}  // namespace
}  // namespace lockstep::control
