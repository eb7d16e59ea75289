#include "operator/replay/backfill.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

WallTime At(int64_t when) {
  return WallTime(seconds(when));
}

ResourceVector Gpus(int64_t count) {
  ResourceVector amounts;
  amounts.gpu_count = count;
  return amounts;
}

// `pods` pods of `gpus` GPUs each.
BackfillGang MakeGang(const std::string& name, int pods, int64_t gpus, int64_t estimate_seconds) {
  BackfillGang gang;
  gang.name = name;
  gang.classes = {MakeClass(name, pods, Gpus(gpus))};
  gang.weight = pods * gpus;
  gang.estimate = seconds(estimate_seconds);
  return gang;
}

BackfillGang Since(int64_t when, BackfillGang gang) {
  gang.since = At(when);
  return gang;
}

std::string NamesOf(const std::vector<BackfillStart>& starts) {
  std::string names;
  for (const BackfillStart& start : starts) {
    names += (names.empty() ? "" : " ") + start.gang;
  }
  return names;
}

// A cluster of nodes with eight GPUs each.
class BackfillTest : public testing::Test {
 protected:
  void Build(int node_count, const Backfill::Options& options = {}) {
    snapshot_.nodes.clear();
    for (int i = 0; i < node_count; ++i) {
      snapshot_.nodes.push_back(MakeNode("n" + std::to_string(i), Gpus(8)));
    }
    backfill_.emplace(SurveyOf(snapshot_).open, options);
  }

  void Submit(std::initializer_list<BackfillGang> gangs) {
    for (const BackfillGang& gang : gangs) {
      backfill_->Submit(gang);
    }
  }

  std::string Pass(int64_t when) { return NamesOf(backfill_->Pass(At(when))); }

  Snapshot snapshot_;
  std::optional<Backfill> backfill_;
};

TEST_F(BackfillTest, StartsWhateverFits) {
  Build(2);
  Submit({MakeGang("a", 1, 8, 100), MakeGang("b", 2, 4, 100)});
  EXPECT_EQ(Pass(0), "a b");
  EXPECT_EQ(Pass(0), "");
  EXPECT_EQ(backfill_->waiting_count(), 0U);
}

TEST_F(BackfillTest, PlanNamesNodeOfEveryPod) {
  Build(2);
  Submit({MakeGang("a", 2, 8, 100)});
  const std::vector<BackfillStart> starts = backfill_->Pass(At(0));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].plan.node_by_pod,
            (std::map<std::string, std::string>{{"a-0", "n0"}, {"a-1", "n1"}}));
}

TEST_F(BackfillTest, HeadHoldsTheEarliestMomentAtWhichItFits) {
  Build(2);
  Submit({MakeGang("long", 1, 8, 1000), MakeGang("short", 1, 4, 300)});
  EXPECT_EQ(Pass(0), "long short");
  Submit({Since(10, MakeGang("whole", 1, 8, 50)), Since(11, MakeGang("all", 2, 8, 50))});
  EXPECT_EQ(Pass(12), "");
  EXPECT_EQ(backfill_->Reservation(At(12))->gang, "whole");
  EXPECT_EQ(backfill_->Reservation(At(12))->at, At(300));
}

TEST_F(BackfillTest, OthersRunWhereTheyEndBeforeItOrLeaveItRoom) {
  Build(2);
  Submit({MakeGang("runs", 1, 8, 1000)});
  EXPECT_EQ(Pass(0), "runs");
  // The head needs both nodes at 1000, and 12 of 16 GPUs at that.
  Submit({Since(1, MakeGang("head", 2, 6, 600)),
          Since(900, MakeGang("touches", 1, 4, 700)),
          Since(900, MakeGang("ends-before", 1, 4, 90)),
          Since(900, MakeGang("leaves-room", 1, 2, 5000))});
  EXPECT_EQ(Pass(901), "ends-before leaves-room");
  EXPECT_EQ(backfill_->Reservation(At(901))->gang, "head");
  EXPECT_EQ(backfill_->Reservation(At(901))->at, At(1000));
  backfill_->Remove("ends-before");
  backfill_->Remove("runs");
  EXPECT_EQ(Pass(1000), "head");
}

TEST_F(BackfillTest, RoomBesideTheHeadIsGivenAwayOnce) {
  Build(1);
  Submit({MakeGang("runs", 1, 4, 1000)});
  EXPECT_EQ(Pass(0), "runs");
  Submit({Since(1, MakeGang("head", 1, 6, 600)),
          Since(999, MakeGang("a", 1, 1, 5000)),
          Since(999, MakeGang("b", 1, 1, 5000)),
          Since(999, MakeGang("c", 1, 1, 5000))});
  EXPECT_EQ(Pass(999), "a b");
}

TEST_F(BackfillTest, ShortestGoFirst) {
  Build(2);
  Submit({MakeGang("runs", 1, 8, 1000)});
  EXPECT_EQ(Pass(0), "runs");
  Submit({Since(1, MakeGang("head", 2, 8, 600)),
          Since(2, MakeGang("c", 1, 4, 500)),
          Since(3, MakeGang("b", 1, 4, 400)),
          Since(4, MakeGang("a", 1, 4, 450))});
  EXPECT_EQ(Pass(5), "b a");
}

TEST_F(BackfillTest, HighestRatioIsHeadUntilSomebodyStarves) {
  Build(1, {.starvation_limit = seconds(5000), .estimate_floor = seconds(1)});
  Submit({MakeGang("runs", 1, 8, 100'000)});
  EXPECT_EQ(Pass(0), "runs");
  Submit({Since(0, MakeGang("old", 1, 1, 4000)), Since(100, MakeGang("quick", 1, 1, 100))});
  EXPECT_EQ(backfill_->Reservation(At(1000))->gang, "quick");
  EXPECT_EQ(backfill_->Reservation(At(4999))->gang, "quick");
  EXPECT_EQ(backfill_->Reservation(At(5000))->gang, "old");
}

TEST_F(BackfillTest, WeightRaisesTheRatio) {
  Build(1, {.estimate_floor = seconds(1)});
  Submit({MakeGang("runs", 1, 8, 100'000)});
  EXPECT_EQ(Pass(0), "runs");
  Submit({Since(0, MakeGang("small", 1, 1, 100)), Since(500, MakeGang("large", 1, 8, 100))});
  EXPECT_EQ(backfill_->Reservation(At(560))->gang, "small");
  EXPECT_EQ(backfill_->Reservation(At(600))->gang, "large");
}

TEST_F(BackfillTest, OfEqualRatiosTheOlderThenTheName) {
  Build(1);
  Submit({MakeGang("runs", 1, 8, 1000)});
  EXPECT_EQ(Pass(0), "runs");
  Submit({Since(6, MakeGang("a", 1, 1, 100)),
          Since(5, MakeGang("c", 1, 1, 100)),
          Since(5, MakeGang("b", 1, 1, 100))});
  EXPECT_EQ(backfill_->Reservation(At(6))->gang, "b");
}

TEST_F(BackfillTest, GangThatTheClusterCouldNeverHoldReservesNothing) {
  Build(1, {.starvation_limit = seconds(10)});
  Submit({MakeGang("giant", 2, 8, 100), MakeGang("runs", 1, 6, 1000)});
  EXPECT_EQ(Pass(0), "runs");
  EXPECT_FALSE(backfill_->Reservation(At(500)));
  Submit({Since(500, MakeGang("small", 1, 2, 9000))});
  EXPECT_EQ(Pass(500), "small");
}

TEST_F(BackfillTest, OneThatIsWithdrawnHoldsNothingBack) {
  Build(1);
  Submit({MakeGang("runs", 1, 4, 1000)});
  EXPECT_EQ(Pass(0), "runs");
  Submit({Since(1, MakeGang("head", 1, 8, 600)), Since(900, MakeGang("long", 1, 4, 5000))});
  EXPECT_EQ(Pass(900), "");
  backfill_->Remove("head");
  EXPECT_EQ(Pass(900), "long");
}

// A world of random gangs whose estimates hold: nobody runs for longer.
struct World {
  struct Job {
    BackfillGang gang;
    int64_t run_seconds = 0;
    int64_t older_waiting = 0;  // when it began to starve
    std::optional<WallTime> started;
  };

  std::vector<Job> jobs;  // in the order in which they come
  int64_t estimate_seconds_max = 0;

  World(uint64_t seed, int node_count) {
    Prng prng(seed);
    int64_t when = 0;
    for (int i = 0; i < 300; ++i) {
      when += static_cast<int64_t>(prng.Below(12));
      // One in fifty wants nearly all; the others would fill the cluster for ever.
      const bool is_large = prng.Below(50) == 0;
      const int pods = is_large ? node_count : 1;
      const int64_t gpus = is_large ? 8 : 1 + static_cast<int64_t>(prng.Below(8));
      const auto run = static_cast<int64_t>(5 + prng.Below(60));
      const auto estimate = run + static_cast<int64_t>(prng.Below(200));
      estimate_seconds_max = std::max(estimate_seconds_max, estimate);
      Job job;
      job.gang = Since(when, MakeGang("g" + std::to_string(i), pods, gpus, estimate));
      job.run_seconds = run;
      jobs.push_back(std::move(job));
    }
  }

  // Runs all of it; `check` looks after each pass.
  template <typename Check>
  void Run(Backfill* backfill, seconds starvation_limit, const Check& check) {
    std::map<std::string, Job*> job_by_name;
    std::set<std::pair<WallTime, std::string>> ends;
    std::size_t next = 0;
    for (int64_t when = 0; next < jobs.size() || !ends.empty(); ++when) {
      const WallTime now = At(when);
      while (!ends.empty() && ends.begin()->first <= now) {
        backfill->Remove(ends.begin()->second);
        ends.erase(ends.begin());
      }
      for (; next < jobs.size() && jobs[next].gang.since <= now; ++next) {
        job_by_name[jobs[next].gang.name] = &jobs[next];
        backfill->Submit(jobs[next].gang);
      }
      for (std::size_t i = 0; i < next; ++i) {
        if (jobs[i].gang.since + starvation_limit == now) {
          jobs[i].older_waiting = std::count_if(jobs.begin(),
                                                jobs.begin() + static_cast<std::ptrdiff_t>(i),
                                                [](const Job& job) { return !job.started; });
        }
      }
      for (const BackfillStart& start : backfill->Pass(now)) {
        Job& job = *job_by_name.at(start.gang);
        job.started = now;
        ends.emplace(now + seconds(job.run_seconds), start.gang);
      }
      check(now);
    }
  }
};

TEST_F(BackfillTest, NobodyStarvesBeyondTheBound) {
  constexpr seconds kLimit(400);
  int64_t starved_count = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Build(3, {.starvation_limit = kLimit, .estimate_floor = seconds(1)});
    World world(seed, 3);
    world.Run(&*backfill_, kLimit, [](WallTime) {});
    for (const World::Job& job : world.jobs) {
      ASSERT_TRUE(job.started) << "seed " << seed << ": " << job.gang.name << " never started";
      const auto waited = *job.started - job.gang.since;
      starved_count += waited > kLimit ? 1 : 0;
      const auto bound = kLimit + seconds((job.older_waiting + 1) * world.estimate_seconds_max);
      ASSERT_LE(waited, bound) << "seed " << seed << ": " << job.gang.name;
    }
  }
  EXPECT_GT(starved_count, 100);  // the worlds are crowded enough to tell
}

TEST_F(BackfillTest, SmallOnesThatKeepComingDoNotHoldUpALargeOne) {
  Build(2, {.starvation_limit = seconds(1000), .estimate_floor = seconds(1)});
  // The large one is long, and light: without the limit its ratio would never be the highest.
  BackfillGang large = MakeGang("large", 2, 8, 100'000);
  large.weight = 1;
  Submit({large});
  std::map<int64_t, std::vector<std::string>> ends;
  std::optional<int64_t> started;
  int small_count = 0;
  for (int64_t now = -10; now < 2000 && !started; ++now) {
    for (const std::string& gang : ends[now]) {
      backfill_->Remove(gang);
    }
    for (int i = 0; now % 10 == 0 && i < (now < 0 ? 2 : 8); ++i) {
      backfill_->Submit(Since(now, MakeGang("s" + std::to_string(small_count++), 1, 8, 100)));
    }
    for (const BackfillStart& start : backfill_->Pass(At(now))) {
      if (start.gang == "large") {
        started = now;
      }
      ends[now + 100].push_back(start.gang);
    }
  }
  ASSERT_TRUE(started);
  EXPECT_GE(*started, 1000);
  EXPECT_LE(*started, 1000 + 100);
}

TEST_F(BackfillTest, ReservationOfOneThatStarvesNeverMovesBack) {
  constexpr seconds kLimit(0);  // the oldest is always the head
  int64_t held_count = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Build(3, {.starvation_limit = kLimit, .estimate_floor = seconds(1)});
    World world(seed, 3);
    std::map<std::string, WallTime> promised;  // while it is the head, without a break
    world.Run(&*backfill_, kLimit, [&](WallTime now) {
      const auto reservation = backfill_->Reservation(now);
      if (!reservation || promised.count(reservation->gang) == 0) {
        promised.clear();
      }
      if (reservation) {
        const auto [found, is_new] = promised.try_emplace(reservation->gang, reservation->at);
        ASSERT_LE(reservation->at, found->second) << "seed " << seed << ": " << reservation->gang;
        found->second = reservation->at;
        held_count += is_new ? 0 : 1;
      }
    });
  }
  EXPECT_GT(held_count, 1000);
}

TEST_F(BackfillTest, OrderOfSubmissionShowsNowhere) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<std::string> logs;
    for (const bool is_reversed : {false, true}) {
      Build(2);
      World world(seed, 2);
      std::vector<BackfillGang> gangs;
      for (const World::Job& job : world.jobs) {
        gangs.push_back(job.gang);
      }
      if (is_reversed) {
        std::reverse(gangs.begin(), gangs.end());
      }
      std::for_each(gangs.begin(), gangs.end(), [&](const auto& one) { backfill_->Submit(one); });
      std::string log;
      std::vector<BackfillStart> running;
      for (int64_t when = 5000; backfill_->waiting_count() > 0; when += 10) {
        std::vector<BackfillStart> starts = backfill_->Pass(At(when));
        log += NamesOf(starts) + "\n";
        running.insert(running.end(), starts.begin(), starts.end());
        ASSERT_FALSE(running.empty());
        backfill_->Remove(running.front().gang);
        running.erase(running.begin());
      }
      logs.push_back(log);
    }
    EXPECT_EQ(logs[0], logs[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lockstep::control
