#include "operator/scheduler/hold_back.h"

#include <gtest/gtest.h>

#include "operator/scheduler/testing/fake_gangs.h"

// Any user could hold up a queue with a job for the whole cluster.

namespace lockstep::control {
namespace {

using std::chrono::seconds;

constexpr seconds kWindow{600};

TEST(HoldBack, HoldsAndLetsPassInWindowsThatDouble) {
  const auto at = [](int64_t waited) { return HoldBackOf(AtSecond(0), AtSecond(waited), kWindow); };
  EXPECT_EQ(at(0), (HoldBack{true, AtSecond(600)}));
  EXPECT_EQ(at(599), (HoldBack{true, AtSecond(600)}));
  EXPECT_EQ(at(600), (HoldBack{false, AtSecond(1200)}));
  EXPECT_EQ(at(1200), (HoldBack{true, AtSecond(2400)}));
  EXPECT_EQ(at(2400), (HoldBack{false, AtSecond(3600)}));
  EXPECT_EQ(at(3600), (HoldBack{true, AtSecond(6000)}));
}

// What runs takes `run_time` to end, and is replaced by the like whenever others may pass.
TEST(HoldBack, WhoWaitsStartsInTime) {
  for (const int64_t run_time : {1, 600, 601, 5000, 100'000, 3'000'000}) {
    int64_t begin = 0;
    HoldBack now = HoldBackOf(AtSecond(0), AtSecond(0), kWindow);
    while (!now.holds || now.until - AtSecond(begin) < seconds(run_time)) {
      begin = (now.until - AtSecond(0)) / seconds(1);
      now = HoldBackOf(AtSecond(0), now.until, kWindow);
    }
    EXPECT_LE(begin + run_time, 5 * run_time) << run_time;
  }
}

class HoldBackTest : public testing::Test {
 protected:
  HoldBackTest() {
    cluster_.options.hold_back = kWindow;
    cluster_.state.SetNode(GpuNode("n1", 8));
  }

  // What a round says when the head has waited for so long behind one that runs until `stops_at`,
  // and a small one without a limit comes.
  std::string SaidAfter(int64_t waited, int64_t stops_at = 0) {
    AddRunning("old", 6, stops_at, &cluster_);
    cluster_.state.Submit(GpuGang("head", 1, 8, 1));
    cluster_.state.Submit(GpuGang("small", 1, 1, 2));
    cluster_.now = AtSecond(1 + waited);
    return cluster_.Step();
  }

  FakeCluster cluster_;
};

TEST_F(HoldBackTest, SmallOneWaitsForAHeadThatHasJustCome) {
  EXPECT_NE(SaidAfter(500).find("refuse default/small: waits behind default/head"),
            std::string::npos);
}

TEST_F(HoldBackTest, SmallOnePassesAHeadThatCannotStartSoon) {
  const std::string said = SaidAfter(700);
  EXPECT_NE(said.find("start default/small"), std::string::npos) << said;
}

TEST_F(HoldBackTest, HeadHoldsBackAgainForLonger) {
  EXPECT_EQ(SaidAfter(1300).find("start default/small"), std::string::npos);
}

TEST_F(HoldBackTest, HeadThatKnowsWhenItStartsIsNotPassed) {
  EXPECT_EQ(SaidAfter(700, 9000).find("start default/small"), std::string::npos);
}

TEST_F(HoldBackTest, WithoutAWindowItHoldsBackForEver) {
  cluster_.options.hold_back = seconds(0);
  EXPECT_EQ(SaidAfter(700).find("start default/small"), std::string::npos);
}

TEST_F(HoldBackTest, RoundTellsWhenTimeAloneLetsOthersPass) {
  AddRunning("old", 6, 0, &cluster_);
  cluster_.state.Submit(GpuGang("head", 1, 8, 1));
  cluster_.now = AtSecond(101);
  const RoundResult result =
      Round(&cluster_.state, cluster_.now, &cluster_.memory, cluster_.options);
  EXPECT_EQ(result.look_again_at, AtSecond(601));
}

// The one behind the head has its own ten minutes: the head may be for other nodes.
TEST_F(HoldBackTest, EachHoldsBackByHowLongItHasWaited) {
  AddRunning("old", 6, 0, &cluster_);
  cluster_.state.Submit(GpuGang("head", 1, 8, 1));
  cluster_.state.Submit(GpuGang("second", 1, 8, 300));
  cluster_.state.Submit(GpuGang("small", 1, 1, 400));
  cluster_.now = AtSecond(701);
  const std::string said = cluster_.Step();
  EXPECT_NE(said.find("refuse default/small: waits behind default/second"), std::string::npos)
      << said;
}

TEST_F(HoldBackTest, SeveralThatHaveWaitedForAsLongArePassed) {
  cluster_.state.Submit(GpuGang("second", 1, 8, 0));
  const std::string said = SaidAfter(700);
  EXPECT_NE(said.find("start default/small"), std::string::npos) << said;
}

TEST_F(HoldBackTest, QuotaIsHeldBackLikewise) {
  cluster_.state.SetNode(GpuNode("n2", 8));
  QueueSpec queue;
  queue.name = "default";
  queue.nominal = OfGpus(8);
  ASSERT_TRUE(cluster_.state.SetQueues({queue}).ok());
  EXPECT_NE(SaidAfter(700).find("start default/small"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
