#include "operator/scheduler/nodes/node_ledger.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

NodeUsage UseOfGpus(int64_t gpus) {
  return {{0, 0, gpus, {}}, 1};
}

TEST(NodeLedger, ClaimsCountBesideWhatThoseWhoLeaveHoldStill) {
  NodeLedger ledger({}, false);
  ledger.SetNode(GpuNode("n1", 8));
  const NodeIndex node = ledger.IndexOf("n1");
  ledger.Hold(node, Holding::kStaying, UseOfGpus(6));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 2);
  ledger.Move(node, Holding::kStaying, Holding::kLeaving, UseOfGpus(4));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 2) << "they have not gone yet";
  ledger.Hold(node, Holding::kClaimed, UseOfGpus(1));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 1) << "one of the two is claimed";
  ledger.Hold(node, Holding::kClaimed, UseOfGpus(4));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 0) << "the rest comes free with those who leave";
  EXPECT_EQ(ledger.FreeBesideLeaving(node).free.gpu_count, 2);
  EXPECT_EQ(ledger.FreeOfStaying(node).free.gpu_count, 6);
  ledger.Release(node, Holding::kLeaving, UseOfGpus(4));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 1) << "5 of 8 are claimed, 2 stay";
  ledger.Release(node, Holding::kClaimed, UseOfGpus(5));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 6);
}

TEST(NodeLedger, WhatIsHeldOfANodeOutlivesIt) {
  NodeLedger ledger({"rack"}, false);
  const NodeIndex node = ledger.IndexOf("n1");
  ledger.Hold(node, Holding::kStaying, UseOfGpus(3));
  ledger.SetNode(GpuNode("n1", 8, "r1"));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 5);
  ledger.RemoveNode("n1");
  EXPECT_EQ(ledger.FreeNow(node), NodeFree{});
  EXPECT_EQ(ledger.offered_in_all(), ResourceVector{});
  ledger.SetNode(GpuNode("n1", 4, "r2"));
  EXPECT_EQ(ledger.FreeNow(node).free.gpu_count, 1);
  EXPECT_EQ(ledger.domains().PathOf(ledger.DomainOf(node)), "r2");
}

TEST(NodeLedger, PortsThatPodsAskForChangeNoNode) {
  NodeLedger ledger({}, false);
  ledger.SetNode(GpuNode("n1", 8));
  ledger.SetNode(GpuNode("n2", 8));
  const uint64_t version = ledger.version();
  const ResourceVector offered = ledger.offered_in_all();
  PodClass worker = MakeClass("w", 2, {0, 0, 1, {}});
  for (int64_t port = 1; port <= 1000; ++port) {
    worker.request.Set(HostPortResource(port), 1);
  }
  const ShapeIndex shape = ledger.AddShape(worker);
  EXPECT_EQ(ledger.version(), version);
  EXPECT_EQ(ledger.offered_in_all(), offered);
  EXPECT_EQ(ledger.shapes().FitsNow(shape, kWholeCluster), 2) << "one on each node";
  const NodeIndex node = ledger.IndexOf("n1");
  ledger.Hold(node, Holding::kStaying, {worker.request, 1});
  EXPECT_EQ(ledger.shapes().FitsNow(shape, kWholeCluster), 1);
  EXPECT_EQ(FreeAmountOf(ledger.FreeNow(node).free, HostPortResource(7)), 0);
  ledger.Release(node, Holding::kStaying, {worker.request, 1});
  EXPECT_TRUE(ledger.FreeNow(node).free.host_ports.empty()) << "they go with the pod";
  EXPECT_EQ(FreeAmountOf(ledger.FreeNow(node).free, HostPortResource(7)), 1);
}

TEST(NodeLedger, PodsOfOneMachineHavePortsOfTheirOwn) {
  PodClass worker = MakeClass("w", 3, {1000, 0, 0, {}});
  worker.request.Set(HostPortResource(80), 1);
  SnapshotNode node = GpuNode("n1", 0);
  node.allocatable.cpu_milli = 3000;
  EXPECT_TRUE(
      std::holds_alternative<Plan>(PlanGang({{node}, /*is_one_machine=*/true}, {{worker}})));
  EXPECT_FALSE(
      std::holds_alternative<Plan>(PlanGang({{node}, /*is_one_machine=*/false}, {{worker}})));
}

TEST(NodeLedger, NumbersOfNodesThatHaveGoneAreGivenAgain) {
  NodeLedger ledger({"rack"}, false);
  ledger.SetNode(GpuNode("stays", 8, "r1"));
  for (int i = 0; i < 100; ++i) {
    const std::string name = "n" + std::to_string(i);
    ledger.SetNode(GpuNode(name, 8, "r2"));
    ledger.RemoveNode(name);
  }
  EXPECT_EQ(ledger.index_end(), 2U);
  EXPECT_EQ(ledger.by_name().size(), 1U);
}

TEST(NodeLedger, LooksAtAsManyNodesOfAGroupAsTheGangHasPods) {
  NodeLedger ledger({}, false);
  for (int i = 0; i < 100; ++i) {
    ledger.SetNode(GpuNode("n" + std::to_string(i), i < 50 ? 8 : 4));
  }
  const std::vector<PodClass> classes{MakeClass("w", 3, {0, 0, 2, {}})};
  EXPECT_EQ(ledger.RoomsFor({classes}).size(), 6U) << "three of each kind";
  EXPECT_EQ(NodeCount(ledger.Survey(classes, "").open), 100);
  EXPECT_EQ(ledger.Survey(classes, "").open.size(), 2U);
}

TEST(NodeLedger, NodesThatDifferInLabelsOnlyAreToldApartWhereThatCounts) {
  NodeLedger ledger({}, false);
  for (int i = 0; i < 10; ++i) {
    SnapshotNode node = GpuNode("n" + std::to_string(i), 8);
    node.labels["disk"] = i == 7 ? "fast" : "slow";
    ledger.SetNode(node);
  }
  std::vector<PodClass> classes{MakeClass("w", 1, {0, 0, 1, {}}),
                                MakeClass("reader", 1, {0, 0, 1, {}})};
  classes[1].node_selector["disk"] = "fast";
  const std::vector<NodeRoom> rooms = ledger.RoomsFor({classes});
  EXPECT_TRUE(std::any_of(
      rooms.begin(), rooms.end(), [](const NodeRoom& room) { return room.node->name == "n7"; }));
  EXPECT_EQ(rooms.size(), 3U) << "two that only the worker may use, and n7";
}

// What a ledger counts, by name: numbers depend on who came first.
std::string CountsOf(const NodeLedger& ledger, const std::vector<ShapeIndex>& shapes) {
  std::string text = std::to_string(ledger.free_in_all().gpu_count) + " of " +
                     std::to_string(ledger.offered_in_all().gpu_count) + "\n";
  for (const ShapeIndex shape : shapes) {
    text += std::to_string(ledger.shapes().FitsNow(shape, kWholeCluster)) + "/" +
            std::to_string(ledger.shapes().FitsEmpty(shape, kWholeCluster));
    for (const auto& [path, domain] : ledger.domains().At(0)) {
      text += " " + path + ":" + std::to_string(ledger.shapes().FitsNow(shape, domain)) + "/" +
              std::to_string(ledger.shapes().FitsEmpty(shape, domain));
    }
    text += "\n";
  }
  return text;
}

std::vector<PodClass> FourShapes() {
  std::vector<PodClass> shapes{MakeClass("one", 1, {0, 0, 1, {}}),
                               MakeClass("three", 1, {0, 0, 3, {}}),
                               MakeClass("fast", 1, {0, 0, 1, {}}),
                               MakeClass("tolerant", 1, {0, 0, 2, {}})};
  shapes[2].node_selector["disk"] = "fast";
  shapes[3].tolerations = {{"gpu", true, "", ""}};
  return shapes;
}

// Counts after any events are those of a ledger that learns the end of them at once.
TEST(NodeLedger, CountsStepByStepAreThoseCountedAnew) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    NodeLedger ledger({"rack"}, false);
    std::map<std::string, SnapshotNode> facts;
    std::map<std::string, int64_t> held;
    std::vector<ShapeIndex> shapes;
    for (int step = 0; step < 60; ++step) {
      const std::string name = "n" + std::to_string(prng.Below(6));
      if (step % 15 == 0) {
        shapes.push_back(ledger.AddShape(FourShapes()[shapes.size()]));
      }
      if (prng.Below(3) == 0) {
        const auto gpus = static_cast<int64_t>(prng.Below(3));
        held[name] += gpus;
        ledger.Hold(ledger.IndexOf(name), Holding::kStaying, {{0, 0, gpus, {}}, 0});
      } else if (prng.Below(5) == 0) {
        ledger.RemoveNode(name);
        facts.erase(name);
      } else {
        SnapshotNode node = GpuNode(name,
                                    static_cast<int64_t>(prng.Below(9)),
                                    prng.Below(4) == 0 ? "" : "r" + std::to_string(prng.Below(3)));
        node.used.gpu_count = static_cast<int64_t>(prng.Below(3));
        node.labels["disk"] = prng.Below(2) == 0 ? "fast" : "slow";
        node.state = prng.Below(5) == 0 ? NodeState::kNotReady : NodeState::kOpen;
        if (prng.Below(3) == 0) {
          node.taints = {{"gpu", "", "NoSchedule"}};
        }
        ledger.SetNode(node);
        facts[name] = node;
      }
    }
    NodeLedger anew({"rack"}, false);
    for (auto node = facts.rbegin(); node != facts.rend(); ++node) {
      anew.SetNode(node->second);
    }
    for (const auto& [name, gpus] : held) {
      anew.Hold(anew.IndexOf(name), Holding::kStaying, {{0, 0, gpus, {}}, 0});
    }
    std::vector<ShapeIndex> shapes_anew;
    for (const PodClass& shape : FourShapes()) {
      shapes_anew.push_back(anew.AddShape(shape));
    }
    ASSERT_EQ(CountsOf(ledger, shapes), CountsOf(anew, shapes_anew)) << "seed " << seed;
  }
}

TEST(ShapeCounts, ShapesThatNobodyUsesAreForgottenInTheEnd) {
  NodeLedger ledger({}, false);
  ledger.SetNode(GpuNode("n1", 8));
  ShapeIndex index_max = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const ShapeIndex shape = ledger.AddShape(MakeClass("w", 1, {i + 1, 0, 1, {}}));
    index_max = std::max(index_max, shape);
    EXPECT_EQ(ledger.shapes().FitsNow(shape, kWholeCluster), 0) << "the node has no cores";
    ledger.DropShape(shape);
  }
  EXPECT_LE(index_max, kIdleShapesMax + 1);
}

}  // namespace
}  // namespace lockstep::control
