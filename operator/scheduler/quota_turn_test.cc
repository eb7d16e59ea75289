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

TEST_F(QuotaTurnTest, NobodyIsToldWhenItStartsWhoWouldNeverHaveTheQuota) {
  Run("old", 6, 0, AtSecond(2020));
  cluster_.state.Submit(GpuGang("big", 1, 9, 10));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/big: queue default would be 7 GPUs over its nominal 8, and may borrow "
            "none\n");
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
