// The longest that a queue lets its jobs run: whose it is, who hears of an edit, and what others
// reckon with.

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"
#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

StoredQueue Limited(const std::string& name, std::optional<int64_t> seconds_max) {
  StoredQueue stored;
  stored.queue.name = name;
  stored.queue.nominal["nvidia.com/gpu"] = 4;
  if (seconds_max.has_value()) {
    stored.queue.max_runtime = std::chrono::seconds(*seconds_max);
  }
  return stored;
}

class RunTimeLimitTest : public RoundBench {
 protected:
  // The jobs that have their turns at once for that.
  std::set<JobId> Limit(const std::string& name,
                        std::optional<int64_t> seconds_max,
                        const std::string& parent = "") {
    StoredQueue stored = Limited(name, seconds_max);
    stored.queue.parent = parent;
    news_ = News();
    Tell(stored);
    return news_.urgent;
  }

  void AddJobOf(const std::string& name, int64_t gpus, const std::string& queue) {
    AddJob(name, gpus);
    TrainingJob job = Stored(name);
    job.spec.scheduling.queue = queue;
    Store(job);
  }

  // Its gang has its places of that queue, whatever its manifest says by now.
  void Place(const std::string& name, const std::string& queue, WallTime since) {
    TrainingJob job = Stored(name);
    PodPlacement placement;
    placement.node = "node-a";
    job.status.placement = {placement};
    job.status.start_time = since;
    job.status.origin.queue = queue;
    Store(job);
  }

  std::optional<RunTimeLimit> LimitOf(const std::string& name) {
    return view_.RunTimeLimitOf(KeyOf(name));
  }
};

TEST_F(RunTimeLimitTest, EditIsUrgentForJobsOfTheQueueAndOfThoseBelowIt) {
  Limit("base", std::nullopt);
  Limit("below", std::nullopt, "base");
  AddJobOf("waits", 1, "base");
  AddJobOf("deep", 1, "below");
  AddJobOf("runs", 1, "other");
  Place("runs", "base", now_);
  AddJobOf("other", 1, "other");
  AddJob("none", 1);

  EXPECT_EQ(Limit("base", 60), (std::set<JobId>{KeyOf("deep"), KeyOf("runs"), KeyOf("waits")}));
  const RunTimeLimit expected{"base", std::chrono::seconds(60)};
  EXPECT_EQ(LimitOf("deep"), expected);
  EXPECT_EQ(LimitOf("runs"), expected) << "it counts in the queue that it got its places by";
  EXPECT_FALSE(LimitOf("other").has_value());
  EXPECT_FALSE(LimitOf("none").has_value());

  EXPECT_EQ(Limit("below", 30, "base"), std::set<JobId>{KeyOf("deep")});
  EXPECT_EQ(Limit("below", 30, "base"), std::set<JobId>());
  EXPECT_EQ(Limit("base", std::nullopt), (std::set<JobId>{KeyOf("runs"), KeyOf("waits")}));
  EXPECT_EQ(LimitOf("deep"), (RunTimeLimit{"below", std::chrono::seconds(30)}));
}

TEST_F(RunTimeLimitTest, QueueThatIsNotServedStopsNobody) {
  Limit("base", 60);
  AddJobOf("runs", 1, "base");
  Place("runs", "base", now_);
  EXPECT_TRUE(LimitOf("runs").has_value());

  EXPECT_EQ(Limit("base", 60, "gone"), std::set<JobId>{KeyOf("runs")});
  EXPECT_FALSE(LimitOf("runs").has_value());
}

// Counted with the grace of 30 s, as runPolicy.activeDeadlineSeconds is.
TEST_F(RunTimeLimitTest, OthersReckonWithItAndWithItsEdits) {
  AddNode("node-a", 4);
  Limit("long", 600);
  Limit("brief", 501);
  AddJobOf("old", 2, "long");
  Place("old", "long", now_ - std::chrono::seconds(100));
  AddJobOf("head", 4, "brief");
  AddJobOf("late", 1, "brief");
  const std::string needs = "needs 4 GPUs, 2 free on 1 node";
  EXPECT_EQ(Ask("head"), needs + "; estimated start about 1970-01-01T00:43Z");
  EXPECT_EQ(Ask("late"), "waits behind default/head, which needs 4 GPUs");

  Limit("long", 900);
  EXPECT_EQ(Ask("head"), "needs 4 GPUs, 1 free on 1 node; estimated start about 1970-01-01T00:48Z")
      << "the other has passed";
  Limit("long", std::nullopt);
  EXPECT_EQ(Ask("head"), needs);
  Limit("long", 600);
  Limit("brief", 500);
  EXPECT_EQ(Ask("late"), "node-a") << "it is stopped before the head may start";
}

class DecidingLimitTest : public testing::Test, protected ApiClusterWorld {};

TEST_F(DecidingLimitTest, JobIsDecidedWithTheLimitOfItsQueue) {
  EXPECT_FALSE(Observe(kMnist)->run_time_limit.has_value());

  News news;
  view_.Apply(kube::ObjectUpdate<StoredQueue>(kube::Upserted<StoredQueue>{
                  {{"", "default"},
                   "default",
                   "30",
                   std::make_shared<const StoredQueue>(Limited("default", 60))}}),
              &news);
  EXPECT_EQ(Observe(kMnist)->run_time_limit, (RunTimeLimit{"default", std::chrono::seconds(60)}));
}

}  // namespace
}  // namespace lockstep::control
