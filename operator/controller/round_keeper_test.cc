#include "operator/controller/round_keeper.h"

#include <memory>

#include <gtest/gtest.h>

#include "common/base/rfc3339.h"
#include "operator/api/conditions.h"
#include "operator/api/encode.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

JobId KeyOf(const std::string& name) {
  return {"default", name};
}

class RoundKeeperTest : public testing::Test {
 protected:
  void AddNode(const std::string& name, int64_t gpus, const std::string& rack = "") {
    kube::Node node;
    node.name = name;
    if (!rack.empty()) {
      node.labels["rack"] = rack;
    }
    node.allocatable = {64'000, int64_t{1} << 40, gpus};
    view_.Apply(kube::ObjectUpdate<kube::Node>(kube::Upserted<kube::Node>{
                    {{"", name}, name, NextVersion(), std::make_shared<const kube::Node>(node)}}),
                &news_);
  }

  void AddQueue(const std::string& name, int64_t gpus, int64_t borrowed_max) {
    StoredQueue stored;
    stored.queue.name = name;
    stored.queue.nominal["nvidia.com/gpu"] = gpus;
    stored.queue.borrowing_limit["nvidia.com/gpu"] = borrowed_max;
    view_.Apply(
        kube::ObjectUpdate<StoredQueue>(kube::Upserted<StoredQueue>{
            {{"", name}, name, NextVersion(), std::make_shared<const StoredQueue>(stored)}}),
        &news_);
  }

  // One worker with so many GPUs. Jobs come one second after the other.
  void AddJob(const std::string& name, int64_t gpus) {
    TrainingJob job = MakeTrainingJob(1);
    job.metadata.name = name;
    job.metadata.uid = "uid-" + name;
    job.spec.roles.front().gpus = gpus;
    job.spec.training->dataset.train.images = "images";
    job.spec.training->dataset.train.labels = "labels";
    created_[name] = WallTime{std::chrono::seconds(1000 + created_.size())};
    Store(job);
  }

  void Store(const TrainingJob& job) {
    Json object = EncodeTrainingJob(job);
    object["metadata"]["creationTimestamp"] = FormatRfc3339(created_.at(job.metadata.name));
    view_.Apply(kube::ObjectUpdate<kube::RawObject>(kube::Upserted<kube::RawObject>{
                    {{"default", job.metadata.name},
                     job.metadata.uid,
                     NextVersion(),
                     std::make_shared<const kube::RawObject>(kube::RawObject{DumpJson(object)})}}),
                &news_);
  }

  TrainingJob Stored(const std::string& name) { return view_.FindJob(KeyOf(name))->job; }

  // The node that the job gets in its turn, or what it waits for.
  std::string Ask(const std::string& name) {
    const PlanResult answer = rounds_.AnswerFor(KeyOf(name), now_, &news_);
    if (const auto* plan = std::get_if<Plan>(&answer)) {
      return plan->node_by_pod.at("worker-0");
    }
    return std::get<Unschedulable>(answer).shortfall;
  }

  // The job is about to have its place there.
  TrainingJobStatus Take(const std::string& name, const std::string& node) {
    TrainingJobStatus status = Stored(name).status;
    PodPlacement placement;
    placement.node = node;
    status.placement = {placement};
    view_.Reserve(KeyOf(name), status);
    return status;
  }

  std::string NextVersion() { return std::to_string(++version_); }

  ClusterView view_{{}, {"rack"}};
  RoundKeeper rounds_{&view_};
  News news_;
  WallTime now_{std::chrono::seconds(2000)};
  std::map<std::string, WallTime> created_;
  int64_t version_ = 0;
};

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
  EXPECT_EQ(rounds_.round_count(), 1);
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
            "needs 3 worker pods in one rack, the best, r2, has room for 2, even if nothing else "
            "ran");
  pair.spec.scheduling.topology.required = "block";
  Store(pair);
  EXPECT_EQ(Ask("pair"), "no level of the cluster's topology is labelled block");
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

TEST_F(RoundKeeperTest, NothingNewIsNoRound) {
  AddNode("node-a", 4);
  AddJob("first", 5);
  Ask("first");
  Ask("first");
  rounds_.Plan(now_, &news_);

  EXPECT_EQ(rounds_.round_count(), 1);
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

}  // namespace
}  // namespace lockstep::control
