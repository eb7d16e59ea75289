#include "operator/scheduler/why.h"

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"

namespace lockstep::control {
namespace {

// Four GPUs on each of three nodes.
class StuckPodsTest : public testing::Test {
 protected:
  StuckPodsTest() {
    for (const char* const name : {"n1", "n2", "n3"}) {
      cluster_.state.SetNode(GpuNode(name, 4));
    }
  }

  // Pods of the job are held so that have no place any more.
  void Leave(const std::string& job, const UsageByNode& usage) {
    GangRequest request;
    request.name = job + " (left)";
    request.queue = std::string(kOffTheBill) + "default";
    cluster_.state.SetHolding(request, usage, {});
  }

  static NodeUsage Gpus(int64_t count) { return {{0, 0, count, {}}, 1}; }

  FakeCluster cluster_;
};

TEST_F(StuckPodsTest, WhoLacksWhatTheyHoldIsToldOfThem) {
  Leave("team/went", {{"n1", Gpus(4)}, {"n2", Gpus(4)}});
  Leave("team/zombie", {{"n3", Gpus(3)}});
  cluster_.state.Submit(GpuGang("a", 2, 1, 1));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/a: needs 2 GPUs, 1 free on 1 node; 11 GPUs are held by pods that do "
            "not end: pods of team/went on n1 and 1 more node, and pods of 1 more job\n");

  cluster_.state.Remove("team/went (left)");
  cluster_.state.Remove("team/zombie (left)");
  EXPECT_EQ(cluster_.Step(), "start default/a w-0@n1 w-1@n1\n");
}

TEST_F(StuckPodsTest, TheyComeBehindWhatOthersMightGive) {
  QueueSpec queue{.name = "default"};
  queue.preempts_lower_priority = true;
  ASSERT_TRUE(cluster_.state.SetQueues({queue}).ok());
  Leave("team/went", {{"n1", Gpus(4)}, {"n2", Gpus(4)}, {"n3", Gpus(3)}});
  cluster_.state.SetRunning(GpuGang("low", 1, 1, 0), {{"w-0", "n3"}}, {AtSecond(0), {}, 0});
  GangRequest urgent = GpuGang("urgent", 1, 2, 1);
  urgent.priority = 10;
  cluster_.state.Submit(urgent);
  EXPECT_EQ(cluster_.Step(),
            "refuse default/urgent: needs 2 GPUs, 0 free on 3 nodes; with 0 free on nodes and at "
            "most 1 available from other jobs, 1 GPU is missing; 11 GPUs are held by pods that do "
            "not end: pods of team/went on n1 and 2 more nodes\n");
}

// Nor where it is not they that are in its way: other nodes, other resources, gangs that run though
// their queue is gone, a gang that is larger than the cluster.
TEST_F(StuckPodsTest, NobodyElseIs) {
  cluster_.state.SetNode(GpuNode("r1", 4, "blue"));
  Leave("team/went", {{"n1", Gpus(4)}, {"n2", Gpus(4)}, {"n3", Gpus(4)}});
  GangRequest runs = GpuGang("runs", 1, 4, 0);
  runs.queue = "gone";
  cluster_.state.SetRunning(runs, {{"w-0", "r1"}}, {});
  GangRequest elsewhere = GpuGang("elsewhere", 1, 1, 1);
  elsewhere.gang.classes[0].node_selector = {{"rack", "blue"}};
  cluster_.state.Submit(elsewhere);
  cluster_.state.Submit(GpuGang("vast", 17, 1, 2));
  const std::string told = cluster_.Step();
  EXPECT_EQ(told.find("do not end"), std::string::npos) << told;
  EXPECT_NE(told.find("refuse default/elsewhere: needs 1 GPU, 0 free on 1 node; 3 of 4 nodes are "),
            std::string::npos)
      << told;
}

}  // namespace
}  // namespace lockstep::control
