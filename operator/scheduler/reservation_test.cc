#include "operator/scheduler/reservation.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_gangs.h"

// Gangs that say when they are stopped: what is kept for those who wait, and who may pass them.

namespace lockstep::control {
namespace {

// Runs from the start on one node, so many seconds in all; 0: for good.
void AddRunning(const std::string& name, int64_t gpus, int64_t stops_at, FakeCluster* cluster) {
  RunTerms run;
  run.stops_at = stops_at == 0 ? WallTime{} : AtSecond(stops_at);
  cluster->state.SetRunning(GpuGang(name, 1, gpus, 0), {{"w-0", "n1"}}, run);
}

GangRequest Limited(GangRequest request, int64_t seconds) {
  request.run_time_max = std::chrono::seconds(seconds);
  return request;
}

std::string At(int64_t second) {
  return FormatRfc3339(AtSecond(second)).substr(0, 16) + "Z";
}

class ReservationTest : public testing::Test {
 protected:
  ReservationTest() { cluster_.state.SetNode(GpuNode("n1", 8)); }

  std::optional<WallTime> ReserveFor(int64_t gpus) {
    cluster_.state.Submit(GpuGang("waits", 1, gpus, 1));
    Statement statement(&cluster_.state, cluster_.now);
    const auto at = ReservationFor(&statement, *cluster_.state.Find("default/waits"), 1000);
    cluster_.state.Remove("default/waits");
    return at;
  }

  FakeCluster cluster_;
};

TEST_F(ReservationTest, IsTheFirstLimitAtWhichEnoughIsFree) {
  AddRunning("a", 4, 2000, &cluster_);
  AddRunning("b", 2, 3000, &cluster_);
  AddRunning("c", 1, 4000, &cluster_);
  EXPECT_EQ(ReserveFor(1), cluster_.now);
  EXPECT_EQ(ReserveFor(5), AtSecond(2000));
  EXPECT_EQ(ReserveFor(7), AtSecond(3000));
  EXPECT_EQ(ReserveFor(8), AtSecond(4000));
  EXPECT_EQ(ReserveFor(9), std::nullopt);
  EXPECT_EQ(cluster_.state.nodes().FreeNow(0).free.AmountOf("nvidia.com/gpu"), 1);
}

TEST_F(ReservationTest, WhoHasNoLimitMayBeThereForGood) {
  AddRunning("a", 4, 2000, &cluster_);
  AddRunning("b", 4, 0, &cluster_);
  EXPECT_EQ(ReserveFor(4), AtSecond(2000));
  EXPECT_EQ(ReserveFor(5), std::nullopt);
}

TEST_F(ReservationTest, WhoIsOverdueMayGoAtAnyMoment) {
  AddRunning("a", 8, 900, &cluster_);
  EXPECT_EQ(ReserveFor(8), cluster_.now);
}

TEST_F(ReservationTest, GangThatIsStoppedInTimePassesTheOneThatWaits) {
  AddRunning("old", 5, 2020, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  cluster_.state.Submit(Limited(GpuGang("long", 3, 1, 2), 1021));
  cluster_.state.Submit(GpuGang("endless", 3, 1, 3));
  cluster_.state.Submit(Limited(GpuGang("short", 3, 1, 4), 1020));
  EXPECT_EQ(cluster_.Step(),
            "start default/short w-0@n1 w-1@n1 w-2@n1\n"
            "refuse default/head: needs 8 GPUs, 0 free on 1 node; estimated start about " +
                At(2040) +
                "\n"
                "refuse default/long: waits behind default/head, which needs 8 GPUs\n"
                "refuse default/endless: waits behind default/head, which needs 8 GPUs\n");
}

TEST_F(ReservationTest, NobodyPassesWhereNobodyKnowsWhenTheOthersEnd) {
  AddRunning("old", 5, 0, &cluster_);
  AddRunning("other", 1, 5000, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  cluster_.state.Submit(Limited(GpuGang("short", 1, 1, 2), 10));
  EXPECT_EQ(cluster_.Step(),
            "refuse default/head: needs 8 GPUs, 2 free on 1 node\n"
            "refuse default/short: waits behind default/head, which needs 8 GPUs\n");
}

// Each costs a look at the whole cluster.
TEST_F(ReservationTest, NoMoreThanEightAreToldInOneRoundWhenTheyStart) {
  AddRunning("old", 8, 2000, &cluster_);
  std::vector<QueueSpec> queues;
  for (int i = 0; i < 10; ++i) {
    queues.push_back({.name = "q" + std::to_string(i)});
  }
  ASSERT_TRUE(cluster_.state.SetQueues(queues).ok());
  for (int i = 0; i < 10; ++i) {
    GangRequest first = GpuGang("first" + std::to_string(i), 8, 1, i);
    first.queue = "q" + std::to_string(i);
    cluster_.state.Submit(first);
  }
  const std::string said = cluster_.Step();
  int told = 0;
  for (std::size_t at = said.find("estimated"); at != std::string::npos;
       at = said.find("estimated", at + 1)) {
    ++told;
  }
  EXPECT_EQ(told, 8) << said;
}

// Gangs come at random, and each goes at its limit or before.
class LimitedWorld {
 public:
  explicit LimitedWorld(uint64_t seed) : prng_(seed) {
    for (int i = 0; i < 3; ++i) {
      cluster_.state.SetNode(GpuNode("n" + std::to_string(i), 4));
    }
  }

  // The oldest that waits starts at the latest when all that ran have been stopped that ran when it
  // became the oldest.
  void Run(int events) {
    for (int event = 0; event < events; ++event) {
      cluster_.now += std::chrono::seconds(prng_.Below(100));
      EndSome();
      if (prng_.Below(2) == 0) {
        const std::string name = "g" + std::to_string(event);
        const auto pods = static_cast<int>(1 + prng_.Below(prng_.Below(3) == 0 ? 12 : 4));
        cluster_.state.Submit(
            Limited(GpuGang(name, pods, 1, event), static_cast<int64_t>(50 + prng_.Below(900))));
      }
      cluster_.Step();
      CheckOldest();
    }
  }

  int passed_count() const { return passed_count_; }

 private:
  void EndSome() {
    std::vector<std::string> gone;
    for (const auto& [name, gang] : cluster_.state.gangs()) {
      const bool runs = gang.state == GangState::kRunning;
      if (runs && (gang.run.stops_at <= cluster_.now || prng_.Below(40) == 0)) {
        gone.push_back(name);
      }
    }
    for (const std::string& name : gone) {
      cluster_.state.Remove(name);
    }
  }

  void CheckOldest() {
    const QueueIndex queue = *cluster_.state.queues().Find("");
    const auto& waiting = cluster_.state.waiting()[queue];
    const std::string oldest = waiting.empty() ? "" : (*waiting.begin())->request.name;
    if (oldest != oldest_) {
      oldest_ = oldest;
      starts_by_ = WallTime{};
      for (const auto& [name, gang] : cluster_.state.gangs()) {
        starts_by_ = std::max(starts_by_, gang.run.stops_at);
      }
    } else if (!oldest.empty()) {
      EXPECT_LT(cluster_.now, starts_by_) << oldest;
    }
    for (const auto& [name, gang] : cluster_.state.gangs()) {
      const bool is_younger =
          !oldest.empty() && gang.state == GangState::kRunning && IsOlder(**waiting.begin(), gang);
      passed_count_ += is_younger && gang.run.started_at == cluster_.now ? 1 : 0;
    }
  }

  Prng prng_;
  FakeCluster cluster_;
  std::string oldest_;
  WallTime starts_by_;
  int passed_count_ = 0;
};

TEST(Reservation, NobodyWaitsLongerThanUntilThoseHaveBeenStoppedThatRan) {
  int passed_count = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LimitedWorld world(seed);
    world.Run(200);
    passed_count += world.passed_count();
  }
  EXPECT_GT(passed_count, 1000) << "else it tests nothing";
}

}  // namespace
}  // namespace lockstep::control
