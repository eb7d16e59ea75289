#include "operator/scheduler/ask_turn.h"

#include <gtest/gtest.h>

#include "operator/scheduler/state/state_copy.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

// Gangs that ask autoscalers for nodes: how many of them at one time, and who may pass them.

namespace lockstep::control {
namespace {

// A queue with eight GPUs, which a gang of eight fills.
class AskTurnTest : public testing::Test {
 protected:
  AskTurnTest() {
    QueueSpec queue{.name = "default", .nominal = {{"nvidia.com/gpu", 8}}};
    queue.borrowing_limit = {{"nvidia.com/gpu", 0}};
    EXPECT_TRUE(cluster_.state.SetQueues({queue}).ok());
  }

  void Submit(const std::string& name, int64_t gpus, int64_t since, Asking asking) {
    GangRequest request = GpuGang(name, 1, gpus, since);
    request.asking = asking;
    cluster_.state.Submit(request);
  }

  // The gangs that may ask, as they were told.
  std::string MayAsk() {
    std::string names;
    for (const auto& [name, gang] : cluster_.state.gangs()) {
      if (gang.told.has_value() && gang.told->constraint == Constraint::kGpu &&
          gang.told->not_asked.empty()) {
        names += (names.empty() ? "" : " ") + name.substr(name.find('/') + 1);
      }
    }
    return names;
  }

  void Settle() {
    for (int i = 0; i < 20; ++i) {
      cluster_.Step();
    }
  }

  FakeCluster cluster_;
};

constexpr Asking kNext{AskStage::kNext};

TEST_F(AskTurnTest, NoMoreGangsAskAtOneTimeThanTheirQueueMayRun) {
  cluster_.state.SetNode(GpuNode("n1", 1));
  Submit("first", 8, 1, kNext);
  Submit("second", 8, 2, kNext);
  Submit("small", 2, 3, kNext);
  EXPECT_EQ(
      cluster_.Step(),
      "refuse default/first: w needs 8 GPUs, the largest node offers 1\nrefuse default/second: w "
      "needs 8 GPUs, the largest node offers 1; Lockstep asks no autoscaler for this job yet, "
      "because other jobs ask first. With this job and those jobs, queue default would be 8 "
      "GPUs over its nominal 8, and may borrow none\nrefuse default/small: w needs 2 GPUs, the "
      "largest node "
      "offers 1; Lockstep asks no autoscaler for this job yet, because other jobs ask first. With "
      "this job and those jobs, queue default would be 2 GPUs over its nominal 8, and may "
      "borrow none\n");
  cluster_.state.Remove("default/first");
  Settle();
  EXPECT_EQ(MayAsk(), "second");
}

TEST_F(AskTurnTest, TenGangsOfAQueueThatMayRunOneAskOneAfterTheOther) {
  cluster_.state.SetNode(GpuNode("n1", 1));
  for (int i = 0; i < 10; ++i) {
    Submit("g" + std::to_string(i), 8, i, kNext);
  }
  for (int i = 0; i < 10; ++i) {
    Settle();
    EXPECT_EQ(MayAsk(), "g" + std::to_string(i));
    cluster_.state.Remove("default/g" + std::to_string(i));
  }
}

TEST_F(AskTurnTest, WhoDoesNotAskIsNotInTheWayOfThoseThatDo) {
  cluster_.state.SetNode(GpuNode("n1", 1));
  Submit("silent", 8, 1, {});
  Submit("asks", 8, 2, kNext);
  Settle();
  EXPECT_EQ(MayAsk(), "asks silent");
}

// What the autoscaler works at is not taken back for one that came later with more priority.
TEST_F(AskTurnTest, WhoHasAskedGoesOnAndWhoseAskHasFailedLetsOthersTry) {
  cluster_.state.SetNode(GpuNode("n1", 1));
  Submit("failed", 8, 1, {AskStage::kFailed, AtSecond(60)});
  Submit("sooner", 8, 2, {AskStage::kFailed, AtSecond(30)});
  Submit("next", 8, 3, kNext);
  Submit("open", 8, 4, {AskStage::kOpen});
  Submit("awaited", 8, 5, {AskStage::kAwaited});
  for (const char* const expected : {"awaited", "open", "next", "sooner", "failed"}) {
    Settle();
    EXPECT_EQ(MayAsk(), expected);
    cluster_.state.Remove(std::string("default/") + expected);
  }
}

// It may fit one day, and then its queue must allow it.
TEST_F(AskTurnTest, QuotaIsToldBeforeRoomOfWhatAsksForNodes) {
  cluster_.state.SetNode(GpuNode("n1", 1));
  cluster_.state.SetRunning(GpuGang("old", 1, 1, 0), {{"w-0", "n1"}}, {});
  Submit("silent", 8, 1, {});
  Submit("asks", 8, 2, kNext);
  Settle();
  EXPECT_EQ(cluster_.state.Find("default/silent")->told->constraint, Constraint::kGpu);
  EXPECT_EQ(cluster_.state.Find("default/asks")->told->constraint, Constraint::kQuota);
}

TEST_F(AskTurnTest, PlacingIsAsItWas) {
  cluster_.state.SetNode(GpuNode("n1", 4));
  Submit("asks", 8, 1, {AskStage::kOpen});
  Submit("small", 4, 2, kNext);
  EXPECT_NE(cluster_.Step().find("start default/small w-0@n1"), std::string::npos);
}

TEST_F(AskTurnTest, WhatIsToldStandsWhileTheAskGoesOn) {
  cluster_.state.SetNode(GpuNode("n1", 1));
  Submit("asks", 8, 1, kNext);
  cluster_.Step();
  cluster_.state.SetAsking("default/asks", {AskStage::kOpen});
  EXPECT_TRUE(cluster_.state.Find("default/asks")->told.has_value());
  EXPECT_EQ(cluster_.Step(), "");
  EXPECT_EQ(CopyOf(cluster_.state)->Find("default/asks")->request.asking.stage, AskStage::kOpen);
}

// Three of five nodes are there, and the others are on their way.
class AwaitedNodes : public testing::Test {
 protected:
  AwaitedNodes() {
    for (const char* const name : {"n1", "n2", "n3"}) {
      cluster_.state.SetNode(GpuNode(name, 8));
    }
  }

  void Submit(GangRequest request, AskStage stage) {
    request.asking = {stage};
    cluster_.state.Submit(request);
  }

  // Nodes join, and younger gangs come meanwhile.
  void Join() {
    for (const char* const name : {"n4", "n5"}) {
      cluster_.state.Submit(GpuGang(std::string("young-") + name, 1, 8, 100));
      log_ += cluster_.Step();
      cluster_.state.SetNode(GpuNode(name, 8));
      log_ += cluster_.Step();
    }
  }

  FakeCluster cluster_;
  std::string log_;
};

TEST_F(AwaitedNodes, NodesThatComeForAGangAreNotTakenByThoseThatCameLater) {
  Submit(GpuGang("old", 5, 8, 1), AskStage::kAwaited);
  cluster_.state.Submit(GpuGang("young", 1, 8, 2));
  Join();
  EXPECT_NE(log_.find("refuse default/young: waits behind default/old"), std::string::npos) << log_;
  EXPECT_EQ(log_.find("start default/young"), std::string::npos) << log_;
  EXPECT_NE(log_.find("start default/old"), std::string::npos) << log_;
}

TEST_F(AwaitedNodes, WhoHasNotBeenToldOfNodesHoldsUpNobody) {
  Submit(GpuGang("old", 5, 8, 1), AskStage::kOpen);
  cluster_.state.Submit(GpuGang("young", 1, 8, 2));
  EXPECT_NE(cluster_.Step().find("start default/young"), std::string::npos);
}

TEST_F(AwaitedNodes, GangOfSeveralKindsOfPodsKeepsThemToo) {
  GangRequest old = GpuGang("old", 4, 8, 1);
  old.gang.classes.push_back(MakeClass("chief", 1, {0, 0, 7, {}}));
  Submit(std::move(old), AskStage::kAwaited);
  cluster_.state.Submit(GpuGang("young", 1, 8, 2));
  Join();
  EXPECT_EQ(log_.find("start default/young"), std::string::npos) << log_;
  EXPECT_NE(log_.find("start default/old"), std::string::npos) << log_;
}

TEST_F(AwaitedNodes, WhatTheGangHasNoUseForIsAnybodys) {
  GangRequest old = GpuGang("old", 4, 8, 1);
  old.gang.classes.push_back(MakeClass("chief", 1, {0, 0, 7, {}}));
  Submit(std::move(old), AskStage::kAwaited);
  cluster_.state.SetNode(GpuNode("n0", 2));
  cluster_.state.Submit(GpuGang("young", 1, 2, 2));
  EXPECT_NE(cluster_.Step().find("start default/young w-0@n0"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
