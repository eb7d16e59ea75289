#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"

// Who starts beside those that wait and hold a reservation, and in which order.

namespace lockstep::control {
namespace {

GangRequest InSpace(GangRequest request, const std::string& space) {
  request.name = space + request.name.substr(request.name.find('/'));
  return request;
}

std::set<std::string> StartedIn(const std::string& said) {
  std::set<std::string> started;
  std::istringstream lines(said);
  const std::string start = "start default/";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start)) {
      started.insert(line.substr(start.size(), line.find(' ', start.size()) - start.size()));
    }
  }
  return started;
}

class BackfillTest : public testing::Test {
 protected:
  BackfillTest() { cluster_.state.SetNode(GpuNode("n1", 8)); }

  void Submit(const std::string& name, int64_t gpus, int64_t since, int64_t limit) {
    cluster_.state.Submit(Limited(GpuGang(name, 1, gpus, since), limit));
  }

  FakeCluster cluster_;
};

TEST_F(BackfillTest, TheShortestComeFirst) {
  AddRunning("old", 6, 9000, &cluster_);
  Submit("head", 8, 1, 100);
  Submit("long", 2, 2, 3000);
  Submit("short", 2, 3, 1000);
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{"short"});
}

TEST_F(BackfillTest, WhoIsNoHeadMayBePassed) {
  AddRunning("old", 6, 9000, &cluster_);
  Submit("head", 8, 1, 100);
  Submit("second", 7, 2, 5000);
  Submit("passes", 2, 3, 7000);  // ends in time for the head
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{"passes"});
}

TEST_F(BackfillTest, WhoEndsLaterStartsWhereTheHeadHasRoomBesideIt) {
  AddRunning("old", 6, 2000, &cluster_);
  Submit("head", 7, 1, 100);
  Submit("too-much", 2, 2, 50'000);
  Submit("beside", 1, 3, 60'000);
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{"beside"});
}

// It may be there for good, and then the second never finds its eight.
TEST_F(BackfillTest, WhoIsNeverStoppedPassesNobody) {
  AddRunning("old", 6, 2000, &cluster_);
  Submit("head", 7, 1, 100);
  Submit("second", 8, 2, 100);
  cluster_.state.Submit(GpuGang("endless", 1, 1, 3));
  const std::string said = cluster_.Step();
  EXPECT_EQ(StartedIn(said), std::set<std::string>{});
  EXPECT_NE(said.find("refuse default/endless: waits behind default/second, which needs 8 GPUs"),
            std::string::npos)
      << said;
}

TEST_F(BackfillTest, WhoIsNeverStoppedStartsWhereItIsInNobodysWay) {
  cluster_.state.SetNode(GpuNode("n2", 1));
  AddRunning("old", 6, 2000, &cluster_);
  Submit("head", 8, 1, 100);
  cluster_.state.Submit(GpuGang("endless", 1, 1, 3));
  EXPECT_EQ(cluster_.Step().find("start default/endless w-0@n2\n"), 0U);
}

// What is in nobody's way once all that are older have ended may still be in the head's way when
// only some have.
TEST_F(BackfillTest, WhoIsNeverStoppedDoesNotPutOffTheHead) {
  cluster_.state.SetNode(GpuNode("n2", 8));
  AddRunning("soon", 6, 2000, &cluster_);
  AddRunning("late", 8, 90'000, &cluster_, "n2");
  Submit("head", 8, 1, 100);
  cluster_.state.Submit(GpuGang("endless", 1, 2, 3));
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{});
}

TEST_F(BackfillTest, LineIsNumberedByTurnsAndNotByLength) {
  AddRunning("old", 6, 2000, &cluster_);
  Submit("head", 8, 1, 100);
  Submit("long", 2, 2, 9000);
  Submit("longer-still", 2, 3, 8000);
  const RoundResult result = Round(&cluster_.state, cluster_.now, &cluster_.memory);
  const std::vector<LinePosition> expected{
      {"default/head", 1}, {"default/long", 2}, {"default/longer-still", 3}};
  EXPECT_EQ(result.line, expected);
}

TEST_F(BackfillTest, BehindManyTheShortestPassAsWell) {
  AddRunning("old", 6, 2000, &cluster_);
  for (int i = 0; i < 200; ++i) {
    Submit("wide" + std::to_string(i), 8, 1 + i, 100);
  }
  Submit("passes", 2, 900, 500);
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{"passes"});
}

// Of the namespace that holds nothing, whose jobs are first in line, one starts before that has its
// room beside it, and the other namespace's does not.
TEST_F(BackfillTest, OldestIsAHeadAlthoughAnotherNamespaceIsFirst) {
  ASSERT_TRUE(
      cluster_.state.SetQueues({{.name = "default", .ordering = QueueOrdering::kFairShare}}).ok());
  for (const auto& [name, gpus, stops_at] :
       {std::tuple("soon", 4, 2000), std::tuple("late", 2, 9000)}) {
    RunTerms run;
    run.stops_at = AtSecond(stops_at);
    cluster_.state.SetRunning(InSpace(GpuGang(name, 1, gpus, 0), "rich"), {{"w-0", "n1"}}, run);
  }
  const auto submit = [&](const std::string& name, int64_t gpus, int64_t since, int64_t limit) {
    cluster_.state.Submit(
        InSpace(Limited(GpuGang(name, 1, gpus, since), limit), name == "oldest" ? "rich" : "poor"));
  };
  submit("first", 4, 2, 100);
  submit("passer", 2, 3, 19'000);
  const std::string passes = "start poor/passer w-0@n1\n";
  submit("oldest", 8, 1, 100);
  const std::string said = cluster_.Step();
  EXPECT_NE(said.find(passes), 0U);
  EXPECT_NE(said.find("refuse poor/passer: waits behind rich/oldest, which needs 8 GPUs\n"),
            std::string::npos)
      << said;
  cluster_.state.Remove("rich/oldest");
  EXPECT_EQ(cluster_.Step().find(passes), 0U) << "the first has its room all the same";
}

// It would not start later for itself.
TEST_F(BackfillTest, OldestStartsWhereItIsInNoOtherHeadsWay) {
  ASSERT_TRUE(
      cluster_.state.SetQueues({{.name = "default", .ordering = QueueOrdering::kPriority}}).ok());
  AddRunning("old", 4, 9000, &cluster_);
  GangRequest head = Limited(GpuGang("head", 1, 8, 5), 100);
  head.priority = 10;
  cluster_.state.Submit(head);
  Submit("oldest", 2, 1, 100);
  Submit("next", 2, 2, 200);
  EXPECT_EQ(StartedIn(cluster_.Step()), (std::set<std::string>{"oldest", "next"}));
}

// Its turn never comes, whoever passes.
TEST_F(BackfillTest, WhoseQueueOrClassIsNotThereIsNoHead) {
  ASSERT_TRUE(cluster_.state.SetQueues({{.name = "default", .namespaces = {"default"}}}).ok());
  AddRunning("old", 4, 9000, &cluster_);
  AddRunning("soon", 2, 2000, &cluster_);
  GangRequest without_class = Limited(GpuGang("lost", 1, 4, 0), 100);
  without_class.missing_class = "priority class urgent does not exist";
  cluster_.state.Submit(without_class);
  cluster_.state.Submit(InSpace(Limited(GpuGang("stranger", 1, 4, 0), 100), "team"));
  Submit("head", 8, 1, 100);
  Submit("passes", 2, 2, 7000);  // after "soon", and before "old"
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{"passes"});
}

// All of it on one node, and none is so large.
TEST_F(BackfillTest, WhoNeverFitsClosesNoGap) {
  cluster_.state.SetNode(GpuNode("n2", 8));
  AddRunning("one", 8, 9000, &cluster_);
  AddRunning("two", 6, 9000, &cluster_, "n2");
  GangRequest too_large = Limited(GpuGang("too-large", 3, 4, 1), 100);
  too_large.topology.required = kHostLevel;
  cluster_.state.Submit(too_large);
  cluster_.state.Submit(Limited(GpuGang("head", 2, 8, 2), 100));
  Submit("passes", 2, 3, 7000);
  EXPECT_EQ(StartedIn(cluster_.Step()), std::set<std::string>{"passes"});
}

// The shortest has its turn before it only to fill the gap.
TEST_F(BackfillTest, OthersGoForWhoIsNextInTurnAndNotForTheShortest) {
  ASSERT_TRUE(
      cluster_.state.SetQueues({{.name = "default", .preempts_lower_priority = true}}).ok());
  cluster_.state.SetNode(GpuNode("n2", 4));
  cluster_.state.SetNode(GpuNode("n3", 1));
  RunTerms run;
  run.stops_at = AtSecond(9000);
  GangRequest old = GpuGang("old", 1, 8, 0);
  old.is_preemptible = false;
  cluster_.state.SetRunning(old, {{"w-0", "n1"}}, run);
  AddRunning("victim", 4, 8000, &cluster_, "n2");
  const auto urgent = [&](const std::string& name, int64_t since, int64_t limit) {
    GangRequest request = Limited(GpuGang(name, 1, 4, since), limit);
    request.priority = 1;
    cluster_.state.Submit(request);
  };
  Submit("head", 8, 1, 100);
  Submit("opens-gap", 1, 2, 6000);
  urgent("next", 3, 5000);
  urgent("shortest", 4, 100);
  const std::string said = cluster_.Step();
  EXPECT_EQ(StartedIn(said), std::set<std::string>{"opens-gap"});
  EXPECT_NE(said.find("evict default/victim for default/next\n"), std::string::npos) << said;
  EXPECT_NE(said.find("claim default/next w-0@n2\n"), std::string::npos) << said;
}

// The promise of quota is to who comes first in turn, not to who was looked at first.
TEST_F(BackfillTest, ShorterOneThatLacksQuotaHoldsUpNobodyOlder) {
  QueueSpec queue{.name = "default"};
  queue.nominal["nvidia.com/gpu"] = 12;
  queue.borrowing_limit["nvidia.com/gpu"] = 0;
  ASSERT_TRUE(cluster_.state.SetQueues({queue}).ok());
  cluster_.state.SetNode(GpuNode("n1", 8, "a"));
  cluster_.state.SetNode(GpuNode("n2", 8, "b"));
  AddRunning("old", 8, 9000, &cluster_);
  GangRequest head = Limited(GpuGang("head", 1, 4, 1), 100);
  head.gang.classes.front().node_selector["rack"] = "a";
  cluster_.state.Submit(head);
  Submit("opens-gap", 1, 2, 100);
  cluster_.state.Submit(GpuGang("endless", 1, 3, 3));
  cluster_.state.Submit(Limited(GpuGang("short", 2, 5, 4), 200));
  const std::string said = cluster_.Step();
  EXPECT_EQ(StartedIn(said), (std::set<std::string>{"opens-gap", "endless"})) << said;
}

}  // namespace
}  // namespace lockstep::control
