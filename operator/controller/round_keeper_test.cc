#include "operator/controller/round_keeper.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/controller/testing/fake_api.h"
#include "operator/controller/testing/round_bench.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

class RoundKeeperTest : public RoundBench {};

TEST_F(RoundKeeperTest, OneRoundServesAllThatTakeWhatItGrants) {
  for (int i = 0; i < 40; ++i) {
    AddNode("node-" + std::to_string(i), 1);
    AddJob("job-" + std::to_string(i), 1);
  }
  std::set<std::string> nodes;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "job-" + std::to_string(i);
    const std::string node = Ask(name);
    const TrainingJobStatus status = Take(name, node);
    view_.NoteStatus(KeyOf(name), status, NextVersion(), &news_);
    view_.EndReservation(KeyOf(name), &news_);
    nodes.insert(node);
  }

  EXPECT_EQ(nodes.size(), 40U);
  EXPECT_EQ(view_.allocator().round_count(), 1);
  EXPECT_EQ(news_.urgent.count(KeyOf("job-39")), 1U) << "it was granted room in another's turn";
}

TEST_F(RoundKeeperTest, RoomOfAGrantWhoseWriteFailsComesBack) {
  AddNode("node-a", 1);
  AddJob("first", 1);
  AddJob("second", 1);
  EXPECT_EQ(Ask("first"), "node-a");
  Take("first", "node-a");
  EXPECT_EQ(Ask("second"), "needs 1 GPU, 0 free on 1 node");

  view_.EndReservation(KeyOf("first"), &news_);  // it was not written
  TrainingJob first = Stored("first");
  first.spec.run_policy.suspend = true;
  Store(first);
  news_ = News();
  rounds_.Plan(now_, &news_);

  EXPECT_EQ(news_.urgent.count(KeyOf("second")), 1U);
  EXPECT_EQ(Ask("second"), "node-a");
}

// Pods of an earlier attempt are still there, say: what was granted is of no use to it yet.
TEST_F(RoundKeeperTest, WhoDoesNotTakeWhatItWasGrantedKeepsItsPlaceUntilItsNextTurn) {
  AddNode("node-a", 2);
  AddNode("node-b", 1);
  AddJob("first", 2);
  AddJob("second", 2);
  AddJob("third", 1);
  news_ = News();
  EXPECT_EQ(Ask("first"), "node-a");
  EXPECT_EQ(news_.urgent.count(KeyOf("first")), 0U) << "or its turns would follow on each other";

  news_ = News();
  rounds_.Settle(now_, &news_);
  EXPECT_TRUE(news_.frees_room);
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("first")), 0U);
  EXPECT_EQ(news_.urgent.count(KeyOf("third")), 1U);
  EXPECT_EQ(Ask("second"), "waits behind default/first, which needs 2 GPUs");
  EXPECT_EQ(Ask("third"), "node-b");
  Take("third", "node-b");

  EXPECT_EQ(Ask("first"), "node-a");
}

TEST_F(RoundKeeperTest, JobHearsWhyItsQueueIsNotServed) {
  AddNode("node-a", 1);
  StoredQueue orphan = QueueOf("vision", 4, 0);
  orphan.queue.parent = "research";
  Tell(orphan);
  AddJob("first", 1);
  TrainingJob first = Stored("first");
  first.spec.scheduling.queue = "vision";
  Store(first);
  EXPECT_EQ(
      Ask("first"),
      "queue vision is not served: queue research, the parent of queue vision, does not exist");
  AddQueue("research", 4, 0);
  EXPECT_EQ(Ask("first"), "node-a");
}

// A millisecond later with every look.
class HastyClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(std::chrono::milliseconds(++looks_)); }

  WallTime WallNow() const override { return {}; }

 private:
  mutable int64_t looks_ = 0;
};

class RoundListener final : public NoPublisher {
 public:
  void OnRound(Duration taken) override { rounds.push_back(taken); }

  std::vector<Duration> rounds;
};

TEST_F(RoundKeeperTest, SomebodyHearsHowLongARoundTook) {
  AddNode("node-a", 1);
  AddJob("first", 1);
  const HastyClock clock;
  RoundListener listener;
  RoundKeeper timed(&view_, {&clock, &listener});
  timed.Ask(KeyOf("first"), now_, &news_);
  EXPECT_EQ(listener.rounds, (std::vector<Duration>{std::chrono::milliseconds(1)}));
}

// By activeDeadlineSeconds, which begins when the gang is placed, and the grace of 30 s.
TEST_F(RoundKeeperTest, JobThatIsStoppedInTimePassesTheOneThatWaits) {
  AddNode("node-a", 4);
  const auto add = [this](const std::string& name, int64_t gpus, int64_t limit) {
    AddJob(name, gpus);
    TrainingJob job = Stored(name);
    job.spec.run_policy.active_deadline = std::chrono::seconds(limit);
    Store(job);
  };
  add("old", 2, 600);
  TrainingJobStatus status = Take("old", Ask("old"));
  status.start_time = now_ - std::chrono::seconds(100);
  view_.Reserve(KeyOf("old"), status);
  view_.NoteStatus(KeyOf("old"), status, NextVersion(), &news_);
  view_.EndReservation(KeyOf("old"), &news_);
  AddJob("head", 4);
  add("late", 1, 501);
  add("early", 1, 500);

  EXPECT_EQ(Ask("head"), "needs 4 GPUs, 1 free on 1 node; estimated start about 1970-01-01T00:43Z");
  EXPECT_EQ(Ask("late"), "waits behind default/head, which needs 4 GPUs");
  EXPECT_EQ(Ask("early"), "node-a");

  TrainingJob old = Stored("old");
  old.spec.run_policy.active_deadline.reset();
  Store(old);
  EXPECT_EQ(Ask("head"), "needs 4 GPUs, 2 free on 1 node") << "early has not taken its place";
}

// Nobody knows when those pods go.
TEST_F(RoundKeeperTest, WhoWaitsForStuckPodsHoldsUpNobodyAndIsAskedAgain) {
  AddNode("node-a", 2);
  AddJob("first", 2);
  AddJob("second", 2);
  TrainingJob first = Stored("first");
  SetCondition(&first.status,
               {ConditionType::kScheduled, false, std::string(kReasonPodStuck), "stuck"},
               now_);
  Store(first);
  EXPECT_EQ(Ask("first"), "node-a");
  rounds_.Settle(now_, &news_);

  EXPECT_EQ(Ask("second"), "node-a");
  Take("second", "node-a");
  EXPECT_EQ(Ask("first"), "needs 2 GPUs, 0 free on 1 node");
}

TEST_F(RoundKeeperTest, WhoAsksIsToldHowThingsStandNowAndOthersHearOfIt) {
  AddNode("node-a", 4);
  for (int i = 0; i < 50; ++i) {
    AddJob("job-" + std::to_string(i), 5);
  }
  EXPECT_EQ(Ask("job-0"), "worker needs 5 GPUs, the largest node offers 4");
  rounds_.Plan(now_, &news_);
  AddNode("node-a", 3);
  EXPECT_EQ(Ask("job-49"), "worker needs 5 GPUs, the largest node offers 3");

  for (int i = 49; i >= 0; --i) {
    EXPECT_EQ(Ask("job-" + std::to_string(i)), "worker needs 5 GPUs, the largest node offers 3");
  }

  AddNode("node-a", 2);
  news_ = News();
  rounds_.Plan(now_, &news_);
  EXPECT_TRUE(news_.frees_room) << "it is not known yet what the rest is to be told";
  rounds_.Plan(now_, &news_);
  rounds_.Plan(now_, &news_);
  news_.frees_room = false;
  rounds_.Plan(now_, &news_);
  EXPECT_FALSE(news_.frees_room) << "all that was said is up to date";
  EXPECT_EQ(news_.urgent.size(), 50U);
}

TEST_F(RoundKeeperTest, GangStaysWithinTheLevelThatItRequires) {
  AddNode("node-a", 1, "r1");
  AddNode("node-b", 1, "r2");
  AddNode("node-c", 1, "r2");
  AddJob("pair", 1);
  TrainingJob pair = Stored("pair");
  pair.spec.roles.front().replicas = 2;
  pair.spec.scheduling.topology.required = "rack";
  Store(pair);
  EXPECT_EQ(Ask("pair"), "node-b");

  pair.spec.roles.front().replicas = 3;
  Store(pair);
  EXPECT_EQ(Ask("pair"),
            "needs 3 worker pods in one rack; the one with most room, r2, has room for 2, even if "
            "nothing else ran");
  pair.spec.scheduling.topology.required = "block";
  Store(pair);
  EXPECT_EQ(Ask("pair"), "the cluster's topology has no level with the label block");
}

TEST_F(RoundKeeperTest, QueueHoldsNoMoreThanItsShareWhileOthersWantTheirs) {
  AddNode("node-a", 4);
  AddQueue("vision", 3, 0);
  AddQueue("speech", 1, 0);
  for (const std::string name : {"first", "second"}) {
    AddJob(name, 2);
    TrainingJob job = Stored(name);
    job.spec.scheduling.queue = "vision";
    Store(job);
  }
  EXPECT_EQ(Ask("first"), "node-a");
  Take("first", "node-a");
  EXPECT_EQ(Ask("second"), "queue vision would be 1 GPU over its nominal 3, and may borrow none");

  news_ = News();
  AddQueue("vision", 4, 0);
  EXPECT_TRUE(news_.frees_room);
  EXPECT_EQ(Ask("second"), "node-a");
}

TEST_F(RoundKeeperTest, JobOfAQueueThatIsNotThereWaitsForItAndHoldsUpNobody) {
  AddNode("node-a", 1);
  AddJob("first", 1);
  TrainingJob first = Stored("first");
  first.spec.scheduling.queue = "vision";
  Store(first);
  AddJob("second", 1);
  EXPECT_EQ(Ask("first"), "queue vision does not exist");
  EXPECT_EQ(Ask("second"), "node-a");
}

TEST_F(RoundKeeperTest, JobOfAPriorityClassThatIsNotThereWaitsForItAndHoldsUpNobody) {
  AddNode("node-a", 1);
  AddJob("first", 1);
  TrainingJob first = Stored("first");
  first.spec.scheduling.priority_class_name = "urgent";
  Store(first);
  AddJob("second", 1);
  EXPECT_EQ(Ask("first"), "priority class urgent does not exist");
  EXPECT_EQ(Ask("second"), "node-a");

  news_ = News();
  AddClass("urgent", 1000);
  EXPECT_TRUE(news_.frees_room);
  EXPECT_EQ(Ask("first"), "node-a") << "nobody has taken it yet";
}

TEST_F(RoundKeeperTest, WhereTheQueueIsOrderedByPriorityTheHighestComesFirst) {
  AddNode("node-a", 1);
  AddClass("urgent", 1000);
  StoredQueue queue = QueueOf("vision", 1, 0);
  queue.queue.order = QueueOrder::kPriority;
  Tell(queue);
  for (const std::string name : {"first", "second"}) {
    AddJob(name, 1);
    TrainingJob job = Stored(name);
    job.spec.scheduling.queue = "vision";
    job.spec.scheduling.priority_class_name = name == "second" ? "urgent" : "";
    Store(job);
  }

  EXPECT_EQ(Ask("second"), "node-a");
  EXPECT_EQ(view_.Scheduling(now_).state().Find("default/second")->request.priority, 1000);
}

TEST_F(RoundKeeperTest, NothingNewIsNoRound) {
  AddNode("node-a", 4);
  AddJob("first", 5);
  Ask("first");
  Ask("first");
  rounds_.Plan(now_, &news_);

  EXPECT_EQ(view_.allocator().round_count(), 1);
}

// It was granted room that somebody else's pod has taken since.
TEST_F(RoundKeeperTest, GrantThatWasNotTakenYetIsDecidedAnewWhenAnythingChanges) {
  AddNode("node-a", 1);
  AddNode("node-b", 1);
  AddJob("first", 1);
  AddJob("second", 1);
  EXPECT_EQ(Ask("first"), "node-a");
  Take("first", "node-a");
  view_.Apply(kube::ObjectUpdate<PodUse>(kube::Upserted<PodUse>{
                  {{"default", "web"},
                   "w",
                   NextVersion(),
                   std::make_shared<const PodUse>(PodUse{"node-b", {0, 0, 1}, false})}}),
              &news_);

  EXPECT_EQ(Ask("second"), "needs 1 GPU, 0 free on 2 nodes");
}

// The first of two jobs that want the same room asks for native binding.
class NativeRoundTest : public RoundKeeperTest {
 protected:
  NativeRoundTest() {
    AddNode("a", 2);
    AddJob("native", 2);
    TrainingJob job = Stored("native");
    job.spec.scheduling.binding = PodBinding::kNative;
    Store(job);
    AddJob("other", 2);
  }
};

TEST_F(NativeRoundTest, JobHoldsUpNobodyWhilePodGroupsAreNotSeen) {
  EXPECT_EQ(Ask("other"), "a");
}

TEST_F(NativeRoundTest, JobStandsForItsPlaceOncePodGroupsAreSeen) {
  news_ = {};
  view_.NotePodGroups({kube::PodGroupVersion::kV1Beta1, ""}, &news_);
  EXPECT_EQ(news_.urgent, (std::set<JobId>{KeyOf("native")})) << "what it says is not true now";
  EXPECT_FALSE(view_.NativeOf(KeyOf("native")).is_followed) << "they are not listed yet";
  news_ = {};
  view_.Apply(kube::ObjectUpdate<StoredPodGroup>(kube::Replaced<StoredPodGroup>{}), &news_);

  EXPECT_EQ(news_.urgent, (std::set<JobId>{KeyOf("native")}));
  EXPECT_TRUE(news_.frees_room);
  EXPECT_NE(Ask("other"), "a");
  EXPECT_EQ(Ask("native"), "a");
}

TEST_F(NativeRoundTest, PodGroupsThatAreNotServedAnyMoreAreNotSeen) {
  const kube::ObjectUpdate<StoredPodGroup> listed{kube::Replaced<StoredPodGroup>{}};
  view_.NotePodGroups({kube::PodGroupVersion::kV1Alpha2, ""}, &news_);
  view_.Apply(listed, &news_);
  news_ = {};
  view_.NotePodGroups({}, &news_);

  EXPECT_EQ(news_.urgent, (std::set<JobId>{KeyOf("native")}));
  EXPECT_FALSE(view_.NativeOf(KeyOf("native")).is_followed);
  EXPECT_EQ(Ask("other"), "a");
  view_.Apply(listed, &news_);  // what the old watch said last
  EXPECT_FALSE(view_.NativeOf(KeyOf("native")).is_followed);

  view_.NotePodGroups({kube::PodGroupVersion::kV1Beta1, ""}, &news_);
  EXPECT_FALSE(view_.NativeOf(KeyOf("native")).is_followed) << "the list was of another version";
  view_.Apply(listed, &news_);
  const NativeSight seen = view_.NativeOf(KeyOf("native"));
  EXPECT_TRUE(seen.is_followed);
  EXPECT_EQ(seen.served.version, kube::PodGroupVersion::kV1Beta1);
}

// A LimitRange or a webhook has made them larger than what was planned.
TEST_F(RoundKeeperTest, WhatPodsTrulyAskForIsHeldAgainstTheQuotaOfTheirQueue) {
  AddNode("node-a", 4);
  AddQueue("vision", 2, 0);
  AddPlacedJob("first", 2, "node-a", "vision");
  EXPECT_EQ(view_.QuotaExcessOf(KeyOf("first"), now_), "");

  kube::Pod pod;
  pod.name = "first-worker-0";
  pod.namespace_name = "default";
  pod.uid = "uid-of-pod";
  pod.labels = EncodePodLabels({"first", "uid-first", {Role::kWorker, 0}, 0, {}});
  pod.owner_uid = "uid-first";
  pod.owner_job = "first";
  pod.spec.node_name = "node-a";
  pod.spec.container.requests.gpu_count = 3;
  view_.Apply(
      kube::ObjectUpdate<kube::Pod>(kube::Upserted<kube::Pod>{
          {{"default", pod.name}, pod.uid, NextVersion(), std::make_shared<const kube::Pod>(pod)}}),
      &news_);
  EXPECT_EQ(view_.QuotaExcessOf(KeyOf("first"), now_),
            "queue vision would be 1 GPU over its nominal 2, and may borrow none");
  AddJob("waits", 1);
  EXPECT_EQ(view_.QuotaExcessOf(KeyOf("waits"), now_), "");
}

}  // namespace
}  // namespace lockstep::control
