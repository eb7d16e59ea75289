// Who may have others go: only gangs whose pods the API server would create.

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"

namespace lockstep::control {
namespace {

constexpr const char* kAsk = "ask whether default/urgent may create its pods\n";

// Two nodes, each with a gang that goes for whoever is more urgent.
class PermissionTest : public testing::Test {
 protected:
  PermissionTest() {
    QueueSpec queue{.name = "default"};
    queue.ordering = QueueOrdering::kPriority;
    queue.preempts_lower_priority = true;
    EXPECT_TRUE(cluster_.state.SetQueues({queue}).ok());
    for (const char* const node : {"n1", "n2"}) {
      cluster_.state.SetNode(GpuNode(node, 4));
      cluster_.state.SetRunning(
          GpuGang(std::string("low-") + node, 1, 4, 0), {{"w-0", node}}, {AtSecond(0), {}, 0});
    }
  }

  void SubmitUrgent(const std::string& name, PodsAllowed answer) {
    GangRequest request = GpuGang(name, 1, 4, 900);
    request.priority = 10;
    request.permission.answer = answer;
    cluster_.state.Submit(request);
  }

  // The server's answer of this moment.
  PodPermission Answer(PodsAllowed answer, const std::string& words = "") const {
    return {answer, cluster_.now, cluster_.now + std::chrono::seconds(60), words};
  }

  FakeCluster cluster_;
};

TEST_F(PermissionTest, NobodyGoesBeforeTheServerHasSaidThatThePodsMayBeCreated) {
  SubmitUrgent("urgent", PodsAllowed::kUnasked);
  EXPECT_EQ(cluster_.Step(),
            "refuse default/urgent: needs 4 GPUs, 0 free on 2 nodes; other gangs are evicted for "
            "this job once the API server accepts this job's pods\n" +
                std::string(kAsk));
  cluster_.state.SetPermission("default/urgent", Answer(PodsAllowed::kYes));
  EXPECT_EQ(cluster_.Step(),
            "evict default/low-n1 for default/urgent\nclaim default/urgent w-0@n1\n");
}

TEST_F(PermissionTest, NobodyGoesForAGangThatMayNotHaveItsPods) {
  SubmitUrgent("urgent", PodsAllowed::kUnasked);
  cluster_.state.SetPermission("default/urgent", Answer(PodsAllowed::kNo, "the quota is full"));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/urgent: needs 4 GPUs, 0 free on 2 nodes; no gang is evicted for this "
            "job: the quota is full\nlook again at 2027-01-15T08:17:40.000Z\n");
  cluster_.now += std::chrono::seconds(60);
  EXPECT_NE(cluster_.Step().find(kAsk), std::string::npos) << "the answer is old";
}

TEST_F(PermissionTest, WhatTheServerSaidLongAgoIsAskedAgain) {
  SubmitUrgent("urgent", PodsAllowed::kUnasked);
  cluster_.state.SetPermission("default/urgent", Answer(PodsAllowed::kYes));
  cluster_.now += std::chrono::seconds(60);
  EXPECT_NE(cluster_.Step().find(kAsk), std::string::npos);
}

// Both were asked about while the namespace's quota had room for one of them.
TEST_F(PermissionTest, TwoGangsOfANamespaceDoNotShareOneAnswer) {
  SubmitUrgent("other", PodsAllowed::kUnasked);
  SubmitUrgent("urgent", PodsAllowed::kUnasked);
  cluster_.state.SetPermission("default/other", Answer(PodsAllowed::kYes));
  cluster_.state.SetPermission("default/urgent", Answer(PodsAllowed::kYes));
  const std::string said = cluster_.Step();
  EXPECT_NE(said.find("claim default/other"), std::string::npos) << said;
  EXPECT_EQ(said.find("claim default/urgent"), std::string::npos) << said;
  EXPECT_NE(said.find(kAsk), std::string::npos) << said;

  cluster_.now += std::chrono::seconds(1);
  cluster_.state.SetPermission("default/urgent", Answer(PodsAllowed::kYes));
  const std::string next = cluster_.Step();
  EXPECT_NE(next.find("claim default/urgent"), std::string::npos) << next;
}

TEST_F(PermissionTest, ClusterThatIsNotAskedLetsEverybodyHaveOthersGo) {
  SubmitUrgent("urgent", PodsAllowed::kAssumed);
  EXPECT_NE(cluster_.Step().find("claim default/urgent"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
