#include "operator/scheduler/placement/reservation.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_gangs.h"

// Gangs that say when they are stopped: what is kept for those who wait, and who may pass them.

namespace lockstep::control {
namespace {

// Has run since that second; others of its kind ran for so many.
void AddLearnt(const GangRequest& request,
               int64_t started_at,
               int64_t stops_at,
               int64_t longest,
               FakeCluster* cluster) {
  RunTerms run;
  run.started_at = AtSecond(started_at);
  run.stops_at = stops_at == 0 ? WallTime{} : AtSecond(stops_at);
  GangRequest learnt = request;
  learnt.past_runs = {3, std::chrono::seconds(longest / 2), std::chrono::seconds(longest)};
  cluster->state.SetRunning(learnt, {{"w-0", "n1"}}, run);
}

std::string At(int64_t second) {
  return FormatRfc3339(AtSecond(second)).substr(0, 16) + "Z";
}

class ReservationTest : public testing::Test {
 protected:
  ReservationTest() { cluster_.state.SetNode(GpuNode("n1", 8)); }

  std::optional<WallTime> ReserveFor(int64_t gpus, EndsBy by = EndsBy::kLimits) {
    learnt_of_.clear();
    cluster_.state.Submit(GpuGang("waits", 1, gpus, 1));
    Statement statement(&cluster_.state, cluster_.now);
    int64_t walks_left = 1'000;
    const auto found =
        ReservationFor(&statement, *cluster_.state.Find("default/waits"), by, 1000, &walks_left);
    cluster_.state.Remove("default/waits");
    if (found && found->learnt_of != nullptr) {
      learnt_of_ = found->learnt_of->request.name;
    }
    return found ? std::optional(found->at) : std::nullopt;
  }

  FakeCluster cluster_;
  std::string learnt_of_;  // of the last
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

TEST_F(ReservationTest, GangEndsWhenOthersOfItsKindHadEndedWhereThatIsBeforeItsLimit) {
  AddLearnt(GpuGang("a", 1, 4, 0), 500, 0, 1500, &cluster_);
  AddLearnt(GpuGang("b", 1, 2, 0), 500, 4000, 2000, &cluster_);
  AddLearnt(GpuGang("c", 1, 2, 0), 500, 3000, 5000, &cluster_);
  for (const EndsBy by : {EndsBy::kPastRuns, EndsBy::kCorrections}) {
    EXPECT_EQ(ReserveFor(4, by), AtSecond(2000));
    EXPECT_EQ(learnt_of_, "default/a");
    EXPECT_EQ(ReserveFor(6, by), AtSecond(2500));
    EXPECT_EQ(learnt_of_, "default/b");
    EXPECT_EQ(ReserveFor(8, by), AtSecond(3000));
    EXPECT_EQ(learnt_of_, "default/b") << "c is stopped, and does not do without the others";
  }
  EXPECT_EQ(ReserveFor(4), AtSecond(4000)) << "a may be there for good";
  EXPECT_EQ(ReserveFor(5), std::nullopt);
}

TEST_F(ReservationTest, NothingIsSaidToBeLearntWhereLimitsAloneCount) {
  AddLearnt(GpuGang("a", 1, 1, 0), 500, 0, 700, &cluster_);
  AddRunning("b", 7, 3000, &cluster_);
  EXPECT_EQ(ReserveFor(7, EndsBy::kPastRuns), AtSecond(3000));
  EXPECT_EQ(learnt_of_, "");
}

TEST_F(ReservationTest, GangThatRunsForLongerThanThoughtCountsByItsLimitOrTwice) {
  AddLearnt(GpuGang("a", 1, 4, 0), 500, 0, 200, &cluster_);
  AddLearnt(GpuGang("b", 1, 4, 0), 500, 1700, 200, &cluster_);
  EXPECT_EQ(ReserveFor(4, EndsBy::kPastRuns), AtSecond(1700));
  EXPECT_EQ(learnt_of_, "");
  EXPECT_EQ(ReserveFor(8, EndsBy::kPastRuns), std::nullopt);
  EXPECT_EQ(ReserveFor(4, EndsBy::kCorrections), AtSecond(1300));
  EXPECT_EQ(ReserveFor(8, EndsBy::kCorrections), AtSecond(1300));
  cluster_.now = AtSecond(1300);
  EXPECT_EQ(ReserveFor(8, EndsBy::kCorrections), AtSecond(2100)) << "a runs on";
  EXPECT_EQ(ReserveFor(4, EndsBy::kCorrections), AtSecond(1700)) << "b is stopped by then";
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
                "refuse default/long: needs 3 GPUs, 0 free on 1 node\n"
                "refuse default/endless: needs 3 GPUs, 0 free on 1 node\n");
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

TEST_F(ReservationTest, HeadIsToldWhatItsStartWasLearntFrom) {
  AddLearnt(GpuGang("old", 1, 5, 0), 400, 0, 1620, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  const std::string needs = "refuse default/head: needs 8 GPUs, 3 free on 1 node";
  EXPECT_EQ(cluster_.Step(),
            needs + "; estimated start about " + At(2040) +
                ", when default/old is expected to end: the last 3 runs of similar jobs took 14 to "
                "27 min\n"
                "look again at " +
                FormatRfc3339(AtSecond(2040)) + "\n");
  cluster_.now = AtSecond(2039);
  EXPECT_EQ(cluster_.Step(), "look again at " + FormatRfc3339(AtSecond(2040)) + "\n");
  cluster_.now = AtSecond(2040);
  EXPECT_EQ(
      cluster_.Step(),
      needs + "; estimated start about " + At(3660) +
          ", when default/old is expected to end: the last 3 runs of similar jobs took 14 to 27 "
          "min, but this run already takes longer\n"
          "look again at " +
          FormatRfc3339(AtSecond(3660)) + "\n");
}

TEST_F(ReservationTest, WhoIsStoppedBeforeTheExpectedStartPasses) {
  AddLearnt(GpuGang("old", 1, 5, 0), 400, 0, 1620, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  cluster_.state.Submit(Limited(GpuGang("long", 3, 1, 2), 1021));
  cluster_.state.Submit(Limited(GpuGang("short", 3, 1, 3), 1020));
  EXPECT_EQ(cluster_.Step().find("start default/short w-0@n1"), 0U);
}

// It would be in the way for longer each time that the moment is put off.
TEST_F(ReservationTest, NobodyPassesByTheEndOfOneThatRunsForLongerThanThought) {
  AddLearnt(GpuGang("old", 1, 5, 0), 400, 0, 500, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  cluster_.state.Submit(Limited(GpuGang("short", 3, 1, 2), 10));
  const std::string said = cluster_.Step();
  EXPECT_EQ(said.find("start"), said.find("start about")) << said;
  EXPECT_NE(said.find("estimated start about " + At(1440)), std::string::npos) << said;
}

// What was learnt of itself lets it pass only where its limit keeps the head's latest start.
TEST_F(ReservationTest, WhoIsExpectedToEndInTimePassesWhereItsLimitIsWithinTheLatestStart) {
  AddLearnt(GpuGang("old", 1, 5, 0), 400, 3000, 1620, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  const auto with = [](const std::string& name, int64_t since, int64_t limit, int64_t longest) {
    GangRequest request = Limited(GpuGang(name, 1, 1, since), limit);
    request.past_runs = {2, std::chrono::seconds(1), std::chrono::seconds(longest)};
    return request;
  };
  cluster_.state.Submit(with("stopped-too-late", 2, 2001, 1020));
  cluster_.state.Submit(with("thought-too-long", 3, 2000, 1021));
  cluster_.state.Submit(with("passes", 4, 2000, 1020));
  cluster_.state.Submit(Limited(GpuGang("unknown", 1, 1, 5), 2000));
  const std::string said = cluster_.Step();
  EXPECT_EQ(said.find("start default/passes w-0@n1\nrefuse"), 0U) << said;
}

// The head has no latest start, as the other one may run on; so the one that passes must be stopped
// when it is expected to start.
TEST_F(ReservationTest, WhoIsOnlyExpectedToEndInTimeDoesNotPassWhereThereIsNoLatestStart) {
  AddLearnt(GpuGang("old", 1, 5, 0), 400, 0, 1620, &cluster_);
  cluster_.state.Submit(GpuGang("head", 8, 1, 1));
  GangRequest request = Limited(GpuGang("may-run-on", 1, 1, 2), 1021);
  request.past_runs = {2, std::chrono::seconds(1), std::chrono::seconds(10)};
  cluster_.state.Submit(request);
  request = Limited(GpuGang("is-stopped", 1, 1, 3), 1020);
  cluster_.state.Submit(request);
  const std::string said = cluster_.Step();
  EXPECT_EQ(said.find("start default/is-stopped w-0@n1\nrefuse"), 0U) << said;
}

// Its reservation is worked out once, and holds when one has passed.
TEST_F(ReservationTest, AsManyPassInOneRoundAsEndInTime) {
  cluster_.state.SetNode(GpuNode("n1", 64));
  AddRunning("old", 30, 2020, &cluster_);
  cluster_.state.Submit(GpuGang("head", 64, 1, 1));
  for (int i = 0; i < 20; ++i) {
    cluster_.state.Submit(Limited(GpuGang("long" + std::to_string(i), 1, 1, 2 + i), 1021));
  }
  for (int i = 0; i < 20; ++i) {
    cluster_.state.Submit(Limited(GpuGang("short" + std::to_string(i), 1, 1, 30 + i), 1020));
  }
  const std::string said = cluster_.Step();
  int started = 0;
  for (std::size_t at = said.find("start default/short"); at != std::string::npos;
       at = said.find("start default/short", at + 1)) {
    ++started;
  }
  EXPECT_EQ(started, 20) << said;
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
  // `learns`: something is known of how long most of them run, right or wrong.
  explicit LimitedWorld(uint64_t seed, bool learns = false) : prng_(seed), learns_(learns) {
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
        GangRequest gang =
            Limited(GpuGang(name, pods, 1, event), static_cast<int64_t>(50 + prng_.Below(900)));
        if (learns_ && prng_.Below(4) != 0) {
          const std::chrono::seconds longest(1 + prng_.Below(600));
          gang.past_runs = {3, longest / 2, longest};
        }
        cluster_.state.Submit(gang);
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
  bool learns_ = false;
  FakeCluster cluster_;
  std::string oldest_;
  WallTime starts_by_;
  int passed_count_ = 0;
};

void CheckWorlds(bool learns) {
  int passed_count = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LimitedWorld world(seed, learns);
    world.Run(200);
    passed_count += world.passed_count();
  }
  EXPECT_GT(passed_count, 1000) << "else it tests nothing";
}

TEST(Reservation, NobodyWaitsLongerThanUntilThoseHaveBeenStoppedThatRan) {
  CheckWorlds(/*learns=*/false);
}

TEST(Reservation, WhateverWasLearntNobodyWaitsLongerThanThat) {
  CheckWorlds(/*learns=*/true);
}

}  // namespace
}  // namespace lockstep::control
