#include "operator/scheduler/quota_turn.h"

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

// Gangs of one pod in a queue with eight GPUs, on a node with more than anybody needs.
class QuotaTurnTest : public testing::Test {
 protected:
  QuotaTurnTest() {
    QueueSpec queue{.name = "default", .nominal = {{"nvidia.com/gpu", 8}}};
    queue.borrowing_limit = {{"nvidia.com/gpu", 0}};
    SetQueue(queue);
    cluster_.state.SetNode(GpuNode("n1", 64));
  }

  void SetQueue(const QueueSpec& queue) { ASSERT_TRUE(cluster_.state.SetQueues({queue}).ok()); }

  void Run(const std::string& name, int64_t gpus, int64_t since, WallTime stops_at = {}) {
    RunTerms run{AtSecond(since), {}, 0};
    run.stops_at = stops_at;
    cluster_.state.SetRunning(GpuGang(name, 1, gpus, since), {{"w-0", "n1"}}, run);
  }

  FakeCluster cluster_;
};

TEST_F(QuotaTurnTest, WhoComesLaterDoesNotTakeWhatAnotherWaitsFor) {
  Run("old", 6, 0);
  cluster_.state.Submit(GpuGang("big", 1, 8, 10));
  cluster_.state.Submit(GpuGang("small", 1, 2, 20));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/big: queue default would be 6 GPUs over its nominal 8, and may borrow "
            "none\n"
            "refuse default/small: waits behind default/big, which needs 8 GPUs of the queue's "
            "quota\n");

  cluster_.state.Remove("default/old");
  EXPECT_EQ(cluster_.Step(),
            "start default/big w-0@n1\n"
            "refuse default/small: queue default would be 2 GPUs over its nominal 8, and may "
            "borrow none\n");
}

// Larger than its queue will ever be: no place in a line helps it.
TEST_F(QuotaTurnTest, WhoIsLargerThanItsQueueIsToldSoAlsoBehindOthers) {
  Run("old", 6, 0);
  cluster_.state.Submit(GpuGang("first", 1, 8, 10));
  cluster_.state.Submit(GpuGang("vast", 1, 9, 20));
  cluster_.state.Submit(GpuGang("vaster", 1, 65, 30));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/first: queue default would be 6 GPUs over its nominal 8, and may "
            "borrow none\nrefuse default/vast: needs 9 GPUs, but queue default can never use more "
            "than 8 (nominal 8, may borrow none)\nrefuse default/vaster: needs 65 GPUs, but queue "
            "default can never use more than 8 (nominal 8, may borrow none); w needs 65 GPUs, the "
            "largest node offers 64\n");

  // An edit of the quota is all that helps it.
  QueueSpec wider{.name = "default", .nominal = {{"nvidia.com/gpu", 9}}};
  SetQueue(wider);
  cluster_.Step();
  cluster_.state.Remove("default/old");
  cluster_.state.Remove("default/first");
  EXPECT_EQ(cluster_.Step(), "start default/vast w-0@n1\n");
}

// An edit of the quota alone would not help: both are told at once, the queue's part first.
TEST_F(QuotaTurnTest, WhoIsLargerThanQueueAndClusterIsToldOfBoth) {
  cluster_.state.Submit(GpuGang("vast", 80, 1, 10));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/vast: needs 80 GPUs, but queue default can never use more than 8 "
            "(nominal 8, may borrow none); needs 80 GPUs, 64 free on 1 node; the gang would not "
            "fit even if the cluster had no other jobs, because it has room for only 64 w pods\n");
  EXPECT_EQ(cluster_.state.Find("default/vast")->told->constraint, Constraint::kQuota);
}

// Its queue holds more than it may since its nominal amount was lowered.
TEST_F(QuotaTurnTest, WhoIsLargerThanItsQueueHoldsUpNobodyWhateverIsHeldNow) {
  Run("old", 6, 0);
  QueueSpec lowered{.name = "default", .nominal = {{"nvidia.com/gpu", 5}}};
  lowered.borrowing_limit = {{"nvidia.com/gpu", 0}};
  SetQueue(lowered);
  cluster_.state.Submit(GpuGang("vast", 1, 6, 10));
  cluster_.state.Submit(GpuGang("fits", 1, 5, 20));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/vast: needs 6 GPUs, but queue default can never use more than 5 "
            "(nominal 5, may borrow none)\nrefuse default/fits: queue default would be 6 GPUs over "
            "its nominal 5: it borrows 1 GPU, and may borrow none\n");
}

TEST_F(QuotaTurnTest, WhoComesLaterMayTakeWhatIsLeftWhenTheOtherHasItsOwn) {
  Run("old", 6, 0);
  cluster_.state.Submit(GpuGang("big", 1, 4, 10));
  cluster_.state.Submit(GpuGang("small", 1, 2, 20));
  EXPECT_EQ(cluster_.Step(),
            "start default/small w-0@n1\n"
            "refuse default/big: queue default would be 4 GPUs over its nominal 8, and may borrow "
            "none\n");
}

TEST_F(QuotaTurnTest, WhoIsStoppedInTimePassesTheOneThatWaitsForTheQuota) {
  Run("old", 6, 0, AtSecond(2020));
  cluster_.state.Submit(GpuGang("big", 1, 8, 10));
  GangRequest longer = GpuGang("longer", 1, 2, 20);
  longer.run_time_max = std::chrono::seconds(1021);
  cluster_.state.Submit(longer);
  GangRequest shorter = GpuGang("shorter", 1, 2, 30);
  shorter.run_time_max = std::chrono::seconds(1020);
  cluster_.state.Submit(shorter);
  EXPECT_EQ(
      cluster_.Step(),
      "start default/shorter w-0@n1\n"
      "refuse default/big: queue default would be 8 GPUs over its nominal 8, and may borrow "
      "none; estimated start about " +
          FormatRfc3339(AtSecond(2040)).substr(0, 16) +
          "Z\n"
          "refuse default/longer: waits behind default/big, which needs 8 GPUs of the queue's "
          "quota\n");
}

// It would start when they have gone, and end later than the one ahead may start.
TEST(QuotaTurn, WhoPassesBecauseItIsStoppedInTimeHasNobodyGo) {
  FakeCluster cluster({.levels = {"rack"}});
  QueueSpec queue{.name = "default", .nominal = {{"nvidia.com/gpu", 17}}};
  queue.borrowing_limit = {{"nvidia.com/gpu", 0}};
  queue.preempts_lower_priority = true;
  ASSERT_TRUE(cluster.state.SetQueues({queue}).ok());
  for (const char* const rack : {"a", "b"}) {
    cluster.state.SetNode(GpuNode(rack, 8, rack));
    RunTerms run{AtSecond(0), {}, 0};
    run.stops_at = AtSecond(2020);
    cluster.state.SetRunning(GpuGang("old-" + std::string(rack), 1, 4, 0), {{"w-0", rack}}, run);
  }
  cluster.state.Submit(GpuGang("big", 2, 8, 10));
  // Each of its pods fits each rack, and both fit none: only a search tells.
  GangRequest brief = GpuGang("brief", 1, 3, 20);
  PodClass other = brief.gang.classes.front();
  other.name = "other";
  other.pods = {"other-0"};
  other.request.gpu_count = 2;
  brief.gang.classes.push_back(other);
  brief.run_time_max = std::chrono::seconds(100);
  brief.priority = 10;
  brief.topology.required = "rack";
  cluster.state.Submit(brief);
  EXPECT_EQ(cluster.Step(),
            "refuse default/big: queue default would be 7 GPUs over its nominal 17, and may borrow "
            "none; estimated start about " +
                FormatRfc3339(AtSecond(2040)).substr(0, 16) +
                "Z; with 8 free on nodes and at most 0 available from other jobs, 8 GPUs are "
                "missing\nrefuse default/brief: needs 1 w pod and 1 other pod at once, each role "
                "fits alone, but they do not fit together\n");
}

TEST_F(QuotaTurnTest, NobodyIsToldWhenItStartsWhoWouldNeverHaveTheQuota) {
  Run("old", 6, 0, AtSecond(2020));
  cluster_.state.Submit(GpuGang("big", 1, 9, 10));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/big: needs 9 GPUs, but queue default can never use more than 8 "
            "(nominal 8, may borrow none)\n");
}

// It has passed already: nobody makes that worse.
TEST_F(QuotaTurnTest, WhatAYoungerOneHoldsIsWaitedForAndNoMore) {
  Run("old", 4, 0);
  Run("young", 2, 15);
  cluster_.state.Submit(GpuGang("big", 1, 8, 10));
  cluster_.state.Submit(GpuGang("small", 1, 2, 20));
  EXPECT_NE(cluster_.Step().find("refuse default/small: waits behind default/big"),
            std::string::npos);
  cluster_.state.Remove("default/old");
  EXPECT_EQ(cluster_.Step().find("start"), std::string::npos) << "four are left, and two";
  cluster_.state.Remove("default/young");
  EXPECT_EQ(cluster_.Step().find("start default/big"), 0U);
}

TEST_F(QuotaTurnTest, WhoAsksForMoreThanTheQueueEverHasHoldsUpNobody) {
  Run("old", 6, 0);
  cluster_.state.Submit(GpuGang("huge", 1, 9, 10));
  cluster_.state.Submit(GpuGang("small", 1, 2, 20));
  EXPECT_EQ(cluster_.Step().find("start default/small"), 0U);
}

// With ordering FIFO others go only for who is next.
TEST_F(QuotaTurnTest, NobodyGoesForOneWhoseTurnItIsNot) {
  QueueSpec queue{.name = "default", .nominal = {{"nvidia.com/gpu", 8}}};
  queue.borrowing_limit = {{"nvidia.com/gpu", 0}};
  queue.preempts_lower_priority = true;
  SetQueue(queue);
  Run("old", 8, 0);
  cluster_.state.Submit(GpuGang("next", 1, 8, 10));
  GangRequest urgent = GpuGang("urgent", 1, 8, 20);
  urgent.priority = 10;
  cluster_.state.Submit(urgent);
  EXPECT_EQ(cluster_.Step().find("evict"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
