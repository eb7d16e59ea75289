#include "operator/scheduler/what_if.h"

#include <gtest/gtest.h>

#include "operator/scheduler/state/state_copy.h"
#include "operator/scheduler/testing/brute_force.h"
#include "operator/scheduler/testing/fake_gangs.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

// Follows a state by its events, and asks copies of it what each round comes to.
class CopyingRecorder final : public StateRecorder {
 public:
  void OnEvent(const StateEvent& event) override {
    const Status played = Play(event, &state_);
    wrong = wrong.empty() && !played.ok() ? played.error().ToString() : wrong;
  }

  void OnRound(WallTime now, const RoundOptions& options, const RoundResult& result) override {
    const std::unique_ptr<ClusterState> copy = CopyOf(state_);
    RoundMemory memory;
    const RoundResult again = Round(copy.get(), now, &memory, options);
    if (wrong.empty() && (again.log != result.log || again.line != result.line)) {
      wrong = "\n" + ToText(result) + "is in a copy\n" + ToText(again);
    }
    ++round_count;
    evicted_count += static_cast<int64_t>(result.evictions.size());
  }

  std::string wrong;
  int64_t round_count = 0;
  int64_t evicted_count = 0;

 private:
  ClusterState state_{{BruteForceLevels(), false}};
};

TEST(StateCopy, RoundsOfACopyComeToTheSame) {
  int64_t evicted_count = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CopyingRecorder recorder;
    BruteForceTally tally;
    ASSERT_EQ(WrongInCase(seed, &tally, &recorder), "");
    ASSERT_EQ(recorder.wrong, "") << "seed " << seed;
    ASSERT_GT(recorder.round_count, 0);
    evicted_count += recorder.evicted_count;
  }
  EXPECT_GT(evicted_count, 20);
}

TEST(StateCopy, StrangersPromisesPastAndUnservedQueuesAreInIt) {
  FakeCluster cluster;
  ASSERT_TRUE(cluster.state.SetQueues({{.name = "a"}}, {{"b", "it cannot be read"}}).ok());
  cluster.state.SetPastUse({{"a", {{"nvidia.com/gpu", 5}}}});
  cluster.state.SetNode(GpuNode("n1", 8));
  cluster.state.SetStrangers("n1", {{0, 0, 3, {}, {{80, 1}}}, 2});
  cluster.state.SetHolding(GpuGang("runs", 1, 1, 1), {{"n1", {{0, 0, 1, {}}, 1}}}, {});
  cluster.state.SetPromised("default/runs", true);
  const std::unique_ptr<ClusterState> copy = CopyOf(cluster.state);
  const NodeIndex node = *copy->nodes().Find("n1");
  EXPECT_EQ(copy->nodes().FreeNow(node).free.gpu_count, 4);
  EXPECT_EQ(copy->nodes().StrangersOn(node), (NodeUsage{{0, 0, 3, {}, {{80, 1}}}, 2}));
  EXPECT_TRUE(copy->Find("default/runs")->is_promised);
  EXPECT_EQ(copy->queues().past_use(), cluster.state.queues().past_use());
  ASSERT_NE(copy->WhyUnserved("b"), nullptr);
  EXPECT_EQ(*copy->WhyUnserved("b"), "it cannot be read");
}

// All of a state in words: what rounds know of it.
std::string Everything(ClusterState* state, WallTime now) {
  std::string text = std::to_string(state->news()) + "\n";
  for (const auto& [name, gang] : state->gangs()) {
    text += name + " " + std::to_string(static_cast<int>(gang.state)) + " " +
            std::to_string(gang.serial) + " " + std::to_string(gang.pod_count) + " " +
            (gang.told ? gang.told->shortfall : "-") + "\n";
  }
  for (const auto& [name, index] : state->nodes().by_name()) {
    text += name + " " + std::to_string(state->nodes().FreeNow(index).free.gpu_count) + " " +
            std::to_string(static_cast<int>(state->nodes().FactsOf(index).state)) + "\n";
  }
  RoundMemory memory;
  return text + ToText(Round(state, now, &memory));
}

// Two nodes of 4 GPUs: one gang runs on n1, a larger one waits.
class WhatIfTest : public testing::Test {
 protected:
  WhatIfTest() {
    QueueSpec urgent{.name = "urgent"};
    urgent.reclaims = true;
    urgent.nominal = {{"nvidia.com/gpu", 8}};
    QueueSpec small{.name = "small"};
    small.nominal = {{"nvidia.com/gpu", 1}};
    small.borrowing_limit = {{"nvidia.com/gpu", 0}};
    EXPECT_TRUE(cluster_.state.SetQueues({urgent, small}).ok());
    cluster_.state.SetNode(GpuNode("n1", 4));
    cluster_.state.SetNode(GpuNode("n2", 4));
    cluster_.state.Submit(GpuGang("runs", 2, 2, 1));
    cluster_.Step();
    cluster_.state.Submit(GpuGang("waits", 4, 2, 2));
    cluster_.Step();
    before_ = Everything(&cluster_.state, cluster_.now);
  }

  ~WhatIfTest() override { EXPECT_EQ(Everything(&cluster_.state, cluster_.now), before_); }

  WhatIfAnswer Ask(const WhatIfChange& change) {
    const Result<WhatIfAnswer> answer = WhatIf(cluster_.state, change, cluster_.now);
    EXPECT_TRUE(answer.ok()) << answer.error().ToString();
    return answer.ok() ? *answer : WhatIfAnswer();
  }

  std::string Refused(const WhatIfChange& change) {
    const Result<WhatIfAnswer> answer = WhatIf(cluster_.state, change, cluster_.now);
    return answer.ok() ? "" : answer.error().ToString();
  }

  FakeCluster cluster_;
  std::string before_;
};

constexpr const char* kWaits = "default/waits";

TEST_F(WhatIfTest, NothingChangedTellsHowThingsStand) {
  const WhatIfAnswer answer = Ask({.gang = kWaits});
  EXPECT_TRUE(answer.pods.empty());
  ASSERT_TRUE(answer.missing.has_value());
  EXPECT_EQ(answer.missing->shortfall, "needs 8 GPUs, 4 free on 1 node");
  EXPECT_EQ(answer.position, 1);
  EXPECT_EQ(answer.at, std::nullopt);
}

TEST_F(WhatIfTest, FewerReplicasStartNowAndThere) {
  const WhatIfAnswer answer = Ask({.gang = kWaits, .replicas = {{"w", 2}}});
  EXPECT_EQ(answer.pods, (PlacedPods{{"w-0", "n2"}, {"w-1", "n2"}}));
  EXPECT_EQ(answer.at, cluster_.now);
  EXPECT_EQ(answer.missing, std::nullopt);
  EXPECT_EQ(answer.position, std::nullopt);
}

TEST_F(WhatIfTest, MoreReplicasNeedMore) {
  EXPECT_EQ(Ask({.gang = kWaits, .replicas = {{"w", 5}}}).missing->shortfall,
            "needs 10 GPUs, 4 free on 1 node; the gang would not fit even if the cluster had no "
            "other jobs, because it has room for only 4 w pods");
}

TEST_F(WhatIfTest, AnotherQueueTellsWhoWouldGo) {
  const WhatIfAnswer answer = Ask({.gang = kWaits, .queue = "urgent"});
  EXPECT_EQ(answer.evicted, std::vector<std::string>{"default/runs"});
  EXPECT_EQ(answer.pods.size(), 4U);
  EXPECT_EQ(answer.at, std::nullopt) << "nobody knows how long they take to go";
}

TEST_F(WhatIfTest, AnotherQueueMayNotHoldIt) {
  EXPECT_NE(
      Ask({.gang = kWaits, .queue = "small"}).missing->shortfall.find("can never use more than 1 "),
      std::string::npos);
  EXPECT_EQ(Ask({.gang = kWaits, .queue = "none"}).missing->shortfall, "queue none does not exist");
}

TEST_F(WhatIfTest, FurtherNodesMakeRoom) {
  const WhatIfAnswer answer = Ask({.gang = kWaits, .further_nodes = {GpuNode("n3", 4)}});
  EXPECT_EQ(answer.pods, (PlacedPods{{"w-0", "n2"}, {"w-1", "n2"}, {"w-2", "n3"}, {"w-3", "n3"}}));
}

// Who runs there waits again, and is older.
TEST_F(WhatIfTest, DrainedNodeDisplacesWhoRunsThere) {
  const WhatIfAnswer answer = Ask({.gang = kWaits, .replicas = {{"w", 2}}, .drained = {"n1"}});
  EXPECT_EQ(answer.displaced, std::vector<std::string>{"default/runs"});
  EXPECT_TRUE(answer.pods.empty());
  ASSERT_TRUE(answer.missing.has_value());
  EXPECT_EQ(answer.missing->shortfall, "needs 4 GPUs, 0 free on 1 node; 1 of 2 nodes is cordoned");
}

TEST_F(WhatIfTest, WhatIsNotThereIsRefusedByName) {
  EXPECT_EQ(Refused({.gang = "default/none"}), "gang default/none does not exist");
  EXPECT_EQ(Refused({.gang = "default/runs"}),
            "gang default/runs is placed already; --what-if works for waiting jobs only");
  EXPECT_EQ(Refused({.gang = kWaits, .replicas = {{"x", 1}}}),
            "role x of default/waits does not exist");
  EXPECT_EQ(Refused({.gang = kWaits, .replicas = {{"w", 0}}}),
            "role w: 0 pods found, expected 1 to 100000");
  EXPECT_EQ(Refused({.gang = kWaits, .drained = {"n9"}}), "node n9 does not exist");
  EXPECT_EQ(Refused({.gang = kWaits, .further_nodes = {GpuNode("n1", 4)}}),
            "node n1 already exists");
}

}  // namespace
}  // namespace lockstep::control
