#include "operator/view/stored/stored_queue.h"

#include <string>

#include <gtest/gtest.h>

#include "operator/allocator/allocator.h"
#include "operator/allocator/job_stand.h"
#include "operator/view/stored/queue_status.h"

namespace lockstep::control {
namespace {

StoredQueue Queue(const std::string& name, const std::string& parent, const std::string& problem) {
  StoredQueue stored;
  stored.queue.name = name;
  stored.queue.parent = parent;
  stored.problem = problem;
  return stored;
}

TEST(StoredQueue, IsReadAsTheServerKeepsIt) {
  const auto item = DecodeStoredQueue(
      R"({"metadata": {"name": "vision", "uid": "u", "resourceVersion": "7"},
          "spec": {"nominal": {"nvidia.com/gpu": 16}}})");

  ASSERT_TRUE(item.ok());
  EXPECT_EQ(item->key, (kube::ObjectKey{"", "vision"}));
  EXPECT_EQ(item->resource_version, "7");
  EXPECT_EQ(item->object->version, "7");
  EXPECT_EQ(item->object->problem, "");
  EXPECT_EQ(item->object->queue.nominal.at("nvidia.com/gpu"), 16);
}

TEST(StoredQueue, WhoseTurnItIsIsAsWritten) {
  const std::pair<QueueOrder, QueueOrdering> cases[] = {
      {QueueOrder::kFifo, QueueOrdering::kFifo},
      {QueueOrder::kPriority, QueueOrdering::kPriority},
      {QueueOrder::kFairShare, QueueOrdering::kFairShare}};
  for (const auto& [written, expected] : cases) {
    StoredQueue stored = Queue("top", "", "");
    stored.queue.order = written;
    EXPECT_EQ(UsableQueues({stored}).front().ordering, expected);
  }
}

TEST(StoredQueue, ThoseThatHangFromNothingAreLeftOut) {
  const std::vector<QueueSpec> specs = UsableQueues({Queue("top", "", ""),
                                                     Queue("below", "top", ""),
                                                     Queue("orphan", "gone", ""),
                                                     Queue("of-orphan", "orphan", ""),
                                                     Queue("unread", "", "spec.weight is 0"),
                                                     Queue("snake", "tail", ""),
                                                     Queue("tail", "snake", "")});

  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[0].name, "below");
  EXPECT_EQ(specs[1].name, "top");
  EXPECT_EQ(specs[2].name, "unread") << "what runs there counts";
  EXPECT_TRUE(QueueTree().Set(specs).ok());
}

TEST(StoredQueue, WhyOneIsNotServedIsSaid) {
  const std::map<std::string, std::string> expected = {
      {"orphan", "queue gone, the parent of queue orphan, does not exist"},
      {"of-orphan", "queue gone, the parent of queue orphan, does not exist"},
      {"unread", "it cannot be read: spec.weight is 0"},
      {"of-unread", "queue unread, the parent of queue of-unread, cannot be read"},
      {"snake", "the parents of queue snake form a loop: snake, tail, snake"},
      {"tail", "the parents of queue tail form a loop: tail, snake, tail"}};
  EXPECT_EQ(UnservedQueues({Queue("top", "", ""),
                            Queue("orphan", "gone", ""),
                            Queue("of-orphan", "orphan", ""),
                            Queue("unread", "", "spec.weight is 0"),
                            Queue("of-unread", "unread", ""),
                            Queue("snake", "tail", ""),
                            Queue("tail", "snake", "")}),
            expected);
}

TEST(StoredQueue, JobsRunNoLongerThanAnyQueueOnTheWayUpLetsThem) {
  const auto limited = [](const std::string& name, const std::string& parent, int64_t seconds_max) {
    StoredQueue stored = Queue(name, parent, "");
    stored.queue.max_runtime = std::chrono::seconds(seconds_max);
    return stored;
  };
  const std::map<std::string, RunTimeLimit> expected = {
      {"top", {"top", std::chrono::seconds(60)}},
      {"short", {"short", std::chrono::seconds(59)}},
      {"long", {"top", std::chrono::seconds(60)}},
      {"below-long", {"top", std::chrono::seconds(60)}}};
  EXPECT_EQ(RunTimeLimits({limited("top", "", 60),
                           limited("short", "top", 59),
                           limited("long", "top", 61),
                           Queue("below-long", "long", ""),
                           Queue("free", "", ""),
                           limited("orphan", "gone", 10)}),
            expected);
}

// A queue with two GPUs, below one that says nothing of its own.
std::vector<StoredQueue> VisionBelowResearch() {
  StoredQueue vision = Queue("vision", "research", "");
  vision.queue.nominal["nvidia.com/gpu"] = 2;
  return {Queue("research", "", ""), vision};
}

GangRequest RequestOf(const std::string& name) {
  GangRequest request;
  request.name = name;
  request.queue = "vision";
  PodClass worker;
  worker.name = "worker";
  worker.pods = {"worker-0"};
  worker.request = {0, 0, 2, {}};
  request.gang.classes = {worker};
  return request;
}

TEST(StoredQueue, WhileOthersGoTheirRoomIsUsedByThemAndClaimedByTheNext) {
  const std::vector<StoredQueue> queues = VisionBelowResearch();
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
  state.SetHolding(RequestOf("team/goes"), {{"node-a", {{0, 0, 2}, 1}}}, {});
  state.Submit(RequestOf("team/next"));
  state.Apply({OperationKind::kEvict, "team/goes", "team/next"}, WallTime{});
  state.Apply({OperationKind::kClaim, "team/next", {}, {{"worker-0", "node-a"}}}, WallTime{});

  for (const char* const name : {"vision", "research"}) {
    const QueueStatus status = QueueStatuses(queues, state).at(name);
    EXPECT_EQ(status.used, (QueueAmounts{{"nvidia.com/gpu", 2}})) << name;
    EXPECT_EQ(status.claimed, (QueueAmounts{{"nvidia.com/gpu", 2}})) << name;
    EXPECT_EQ(status.waiting, 1) << name;
    EXPECT_TRUE(status.borrowed.empty()) << name;
  }
  state.Remove("team/goes");
  EXPECT_TRUE(QueueStatuses(queues, state).at("vision").used.empty()) << "the next has not begun";
}

// It was told to go for another, has given its places up and waits; its pods are still there.
TEST(StoredQueue, PodsThatGoForOthersCountAsUsedUntilTheyAreGone) {
  std::vector<StoredQueue> queues = VisionBelowResearch();
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
  GangRequest waits;
  waits.name = "team/goes";
  waits.queue = "vision";
  state.Submit(waits);
  GangRequest going;
  going.name = "team/goes (going)";
  going.queue = std::string(kOffTheBill) + "vision";
  state.SetHolding(going, {{"node-a", {{0, 0, 2}, 1}}}, {});
  state.Apply({OperationKind::kEvict, going.name, ""}, WallTime{});
  for (const char* const name : {"vision", "research"}) {
    EXPECT_EQ(QueueStatuses(queues, state).at(name).used, (QueueAmounts{{"nvidia.com/gpu", 2}}))
        << name;
  }
  EXPECT_TRUE(state.queues().Allows(*state.queues().Find("vision"), {0, 0, 2, {}}))
      << "its next start is not refused for them";
  state.Remove(going.name);
  EXPECT_TRUE(QueueStatuses(queues, state).at("vision").used.empty());
}

// A finalizer keeps one. No quota is refused for it, which it would lock for ever.
TEST(StoredQueue, PodThatIsStuckCountsAsUsedBesideThoseThatTookTheQuota) {
  const std::vector<StoredQueue> queues = VisionBelowResearch();
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
  state.Submit(RequestOf("team/went"));
  GangRequest stuck;
  stuck.name = "team/went (left)";
  stuck.queue = std::string(kOffTheBill) + "vision";
  state.SetHolding(stuck, {{"node-a", {{0, 0, 1}, 1}}}, {});
  for (const char* const name : {"vision", "research"}) {
    EXPECT_EQ(QueueStatuses(queues, state).at(name).used, (QueueAmounts{{"nvidia.com/gpu", 1}}))
        << name;
  }
  EXPECT_TRUE(state.queues().Allows(*state.queues().Find("vision"), {0, 0, 2, {}}));
  state.SetHolding(RequestOf("team/next"), {{"node-b", {{0, 0, 2}, 1}}}, {});
  EXPECT_EQ(QueueStatuses(queues, state).at("vision").used, (QueueAmounts{{"nvidia.com/gpu", 3}}));
  EXPECT_EQ(QueueStatuses(queues, state).at("vision").left, (QueueAmounts{{"nvidia.com/gpu", 1}}));
  state.Remove(stuck.name);
  EXPECT_EQ(QueueStatuses(queues, state).at("vision").used, (QueueAmounts{{"nvidia.com/gpu", 2}}));
}

// The job was suspended, has ended, runs again elsewhere, or is gone: the GPU is held all the same.
TEST(StoredQueue, PodThatIsStuckCountsWhateverBecomesOfItsJob) {
  const std::vector<StoredQueue> queues = VisionBelowResearch();
  Allocator allocator;
  allocator.SetQueues(UsableQueues(queues), {});
  const JobId key{"team", "went"};
  const auto used = [&] {
    const QueueAmounts amounts = QueueStatuses(queues, allocator.state()).at("vision").used;
    return amounts.contains("nvidia.com/gpu") ? amounts.at("nvidia.com/gpu") : 0;
  };
  const UsageByNode one = {{"node-a", {{0, 0, 1}, 1}}};
  JobStand runs;
  runs.request.name = GangNameOf(key);
  runs.request.queue = "vision";
  runs.is_placed = true;
  runs.held = {{"node-b", {{0, 0, 2}, 1}}};
  allocator.SetJob(key, runs);
  EXPECT_EQ(used(), 2);

  JobStand suspended;
  suspended.request = runs.request;
  suspended.stuck = one;
  allocator.SetJob(key, suspended);
  EXPECT_EQ(used(), 1) << "suspended, or ended";
  runs.stuck = one;
  allocator.SetJob(key, runs);
  EXPECT_EQ(used(), 3) << "it runs again";
  JobStand gone;
  gone.request.name = GangNameOf(key);
  gone.going = one;
  allocator.SetJob(key, gone);
  EXPECT_EQ(used(), 1) << "deleted, with a pod that is asked to go";
  std::swap(gone.going, gone.stuck);
  allocator.SetJob(key, gone);
  EXPECT_EQ(used(), 1) << "and stays";
  gone.stuck.clear();
  allocator.SetJob(key, gone);
  EXPECT_EQ(used(), 0);
}

// An operator that comes later was not there when the job was.
TEST(StoredQueue, PodsOfAJobThatNobodyRemembersAreUsedInNoQueue) {
  Allocator allocator;
  allocator.SetQueues({}, {});
  JobStand gone;
  gone.request.name = "team/went";
  gone.stuck = {{"node-a", {{0, 0, 1}, 1}}};
  allocator.SetJob({"team", "went"}, gone);
  EXPECT_TRUE(DefaultStanding({}, allocator.state())->used.empty());
}

TEST(StoredQueue, QueueWithOthersBelowItSaysThatJobsNameThose) {
  std::vector<StoredQueue> queues = VisionBelowResearch();
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
  const QueueStatus status = QueueStatuses(queues, state).at("research");
  EXPECT_TRUE(status.is_ready);
  EXPECT_EQ(status.reason, "HasQueuesBelow");
  EXPECT_EQ(status.message, "jobs can name only the queues below this one: vision");
  EXPECT_EQ(status.nominal, (QueueAmounts{{"nvidia.com/gpu", 2}})) << "what those have in all";
}

TEST(StoredQueue, QueueThatPromisesMoreThanItHasSaysSo) {
  std::vector<StoredQueue> queues = VisionBelowResearch();
  queues.front().queue.nominal["nvidia.com/gpu"] = 3;
  queues.push_back(Queue("speech", "research", ""));
  queues.back().queue.nominal["nvidia.com/gpu"] = 2;
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
  const QueueStatus status = QueueStatuses(queues, state).at("research");
  EXPECT_TRUE(status.is_ready);
  EXPECT_EQ(status.reason, "PromisesTooMuch");
  EXPECT_EQ(status.message,
            "jobs can name only the queues below this one: speech, vision; their nominal amounts "
            "together are 4 GPUs, but this queue has only 3");
}

TEST(StoredQueue, DefaultQueueIsMeasuredThoughNobodyHasWrittenOne) {
  for (const bool are_others_there : {false, true}) {
    const std::vector<StoredQueue> queues =
        are_others_there ? VisionBelowResearch() : std::vector<StoredQueue>();
    ClusterState state({});
    ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
    GangRequest runs = RequestOf("team/runs");
    GangRequest waits = RequestOf("team/waits");
    runs.queue = waits.queue = "";
    state.SetHolding(runs, {{"node-a", {{0, 0, 2}, 1}}}, {});
    state.Submit(waits);
    const std::optional<QueueStatus> standing = DefaultStanding(queues, state);
    ASSERT_TRUE(standing.has_value());
    EXPECT_EQ(standing->waiting, 1);
    EXPECT_EQ(standing->used, (QueueAmounts{{"nvidia.com/gpu", 2}}));
    EXPECT_TRUE(standing->nominal.empty()) << "it has no limit";
  }
  const std::vector<StoredQueue> written = {Queue("default", "", "")};
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(written)).ok());
  EXPECT_FALSE(DefaultStanding(written, state).has_value());
}

TEST(StoredQueue, StatusSaysWhatIsUsedAndBorrowedAndHowManyWait) {
  StoredQueue vision = Queue("vision", "", "");
  vision.queue.nominal["nvidia.com/gpu"] = 2;
  vision.queue.parent = "research";
  const std::vector<StoredQueue> queues = {
      Queue("research", "", ""), vision, Queue("speech", "", ""), Queue("orphan", "gone", "")};
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues)).ok());
  GangRequest runs;
  runs.name = "team/runs";
  runs.queue = "vision";
  state.SetHolding(runs, {{"node-a", {{500, 0, 3}, 1}}}, {});
  GangRequest waits;
  waits.name = "team/waits";
  waits.queue = "vision";
  state.Submit(waits);

  const auto statuses = QueueStatuses(queues, state);
  ASSERT_EQ(statuses.size(), 4U);
  const QueueStatus& status = statuses.at("vision");
  EXPECT_TRUE(status.is_ready);
  EXPECT_EQ(status.used, (QueueAmounts{{"cpu", 500}, {"nvidia.com/gpu", 3}}));
  EXPECT_EQ(status.borrowed, (QueueAmounts{{"nvidia.com/gpu", 1}}));
  EXPECT_EQ(status.waiting, 1);
  EXPECT_EQ(statuses.at("research").waiting, 1) << "below it";
  EXPECT_EQ(statuses.at("speech").waiting, 0);
  EXPECT_FALSE(statuses.at("orphan").is_ready);
  EXPECT_EQ(statuses.at("orphan").message,
            "queue gone, the parent of queue orphan, does not exist");
}

TEST(StoredQueue, OldestWaitIsThatOfTheFirstJobOfTheQueueOrOfThoseBelow) {
  const std::vector<StoredQueue> queues = {Queue("research", "", ""),
                                           Queue("vision", "research", ""),
                                           Queue("speech", "research", ""),
                                           Queue("orphan", "gone", "")};
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues), UnservedQueues(queues)).ok());
  const auto submit = [&](const std::string& queue, int came, int waits) {
    GangRequest request;
    request.name = "team/" + queue + std::to_string(came);
    request.queue = queue;
    request.since = WallTime(std::chrono::hours(came));
    request.waits_since = WallTime(std::chrono::hours(waits));
    state.Submit(request);
  };
  submit("vision", 5, 0);  // it has waited since it came
  submit("vision", 1, 7);  // it came first, and had its places for a while
  submit("orphan", 3, 4);

  const auto statuses = QueueStatuses(queues, state);
  EXPECT_EQ(statuses.at("vision").oldest_wait, WallTime(std::chrono::hours(5)));
  EXPECT_EQ(statuses.at("research").oldest_wait, WallTime(std::chrono::hours(5))) << "below it";
  EXPECT_EQ(statuses.at("speech").oldest_wait, std::nullopt);
  EXPECT_EQ(statuses.at("orphan").oldest_wait, WallTime(std::chrono::hours(4))) << "not served";
  EXPECT_TRUE(statuses.at("research").has_queues_below);
  EXPECT_FALSE(statuses.at("vision").has_queues_below);
}

// Else others would get what these hold, and the parent more than it may hold.
TEST(StoredQueue, WhatRunsInOneThatCannotBeReadCountsForItsParent) {
  const std::vector<StoredQueue> broken = {
      Queue("root", "", ""), Queue("read", "root", ""), Queue("vision", "root", "bad weight")};
  for (const char* const parent : {"vision", "below-vision"}) {
    std::vector<StoredQueue> queues = broken;
    queues.front().queue.nominal["nvidia.com/gpu"] = 2;
    queues.front().queue.borrowing_limit["nvidia.com/gpu"] = 0;
    queues.push_back(Queue("below-vision", "vision", ""));
    ClusterState state({});
    ASSERT_TRUE(state.SetQueues(UsableQueues(queues), UnservedQueues(queues)).ok());
    GangRequest runs = RequestOf("team/runs");
    runs.queue = parent;
    state.SetHolding(runs, {{"node-a", {{0, 0, 2}, 1}}}, {});
    EXPECT_FALSE(state.queues().Allows(*state.queues().Find("read"), {0, 0, 1, {}})) << parent;
    const auto statuses = QueueStatuses(queues, state);
    EXPECT_EQ(statuses.at("root").used, (QueueAmounts{{"nvidia.com/gpu", 2}})) << parent;
    EXPECT_EQ(statuses.at("vision").used, (QueueAmounts{{"nvidia.com/gpu", 2}})) << parent;
    EXPECT_EQ(statuses.at("vision").reason, "NotServed");
    EXPECT_EQ(statuses.at("vision").message, "it cannot be read: bad weight");
  }
}

TEST(StoredQueue, ParentOfQueuesThatCannotBeReadIsNoneThatJobsMayName) {
  const std::vector<StoredQueue> queues = {Queue("root", "", ""),
                                           Queue("vision", "root", "bad weight")};
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues), UnservedQueues(queues)).ok());
  const QueueStatus status = QueueStatuses(queues, state).at("root");
  EXPECT_EQ(status.reason, "HasQueuesBelow");
  EXPECT_EQ(status.message, "jobs can name only the queues below this one: vision");
}

// They wait until it is served, and who runs runs on.
TEST(StoredQueue, JobsOfOneThatIsNotServedAreCounted) {
  const std::vector<StoredQueue> queues = {
      Queue("orphan", "gone", ""), Queue("vision", "orphan", ""), Queue("snake", "snake", "")};
  ClusterState state({});
  ASSERT_TRUE(state.SetQueues(UsableQueues(queues), UnservedQueues(queues)).ok());
  state.SetHolding(RequestOf("team/runs"), {{"node-a", {{0, 0, 2}, 1}}}, {});
  state.Submit(RequestOf("team/waits"));
  GangRequest waits_below_itself = RequestOf("team/waits-too");
  waits_below_itself.queue = "snake";
  state.Submit(waits_below_itself);
  GangRequest stuck = RequestOf("team/went (left)");
  stuck.queue = std::string(kOffTheBill) + "vision";
  state.SetHolding(stuck, {{"node-b", {{0, 0, 1}, 1}}}, {});

  const auto statuses = QueueStatuses(queues, state);
  for (const char* const name : {"vision", "orphan"}) {
    EXPECT_EQ(statuses.at(name).reason, "NotServed");
    EXPECT_EQ(statuses.at(name).waiting, 1) << name;
    EXPECT_EQ(statuses.at(name).used, (QueueAmounts{{"nvidia.com/gpu", 3}})) << name;
    EXPECT_EQ(statuses.at(name).left, (QueueAmounts{{"nvidia.com/gpu", 1}})) << name;
  }
  EXPECT_EQ(statuses.at("snake").waiting, 1);
}

}  // namespace
}  // namespace lockstep::control
