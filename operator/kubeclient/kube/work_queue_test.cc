#include "operator/kubeclient/kube/work_queue.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::control::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Queue = WorkQueue<std::string>;

constexpr TimePoint kNow{std::chrono::hours(1)};

// All that is due at `now`, worked off: "a b c".
std::string Drain(Queue* queue, TimePoint now) {
  std::string keys;
  while (auto work = queue->Take(now)) {
    keys += (keys.empty() ? "" : " ") + work->key;
    queue->Done(work->key, now);
  }
  return keys;
}

TEST(WorkQueue, HandsOutEachKeyOnceInOrder) {
  Queue queue;
  for (const char* key : {"b", "a", "b", "c", "a"}) {
    queue.Add(key, kNow);
  }
  EXPECT_EQ(queue.depth(), 3U);
  EXPECT_EQ(Drain(&queue, kNow), "b a c");
  EXPECT_EQ(queue.counts().adds, 3);
  EXPECT_EQ(queue.NextDue(), std::nullopt);
}

// Checklist: re-add while processing.
TEST(WorkQueue, WhatIsAddedDuringItsWorkComesAfterwardsOnce) {
  Queue queue;
  queue.Add("a", kNow);
  queue.Add("b", kNow);
  EXPECT_EQ(queue.Take(kNow)->key, "a");
  queue.Add("a", kNow);
  queue.Add("a", kNow);
  queue.Done("a", kNow);
  EXPECT_EQ(Drain(&queue, kNow), "b a");
}

TEST(WorkQueue, SeveralKeysAreWorkedOnAtOnceEachOnce) {
  Queue queue;
  queue.Add("a", kNow);
  queue.Add("b", kNow);
  EXPECT_EQ(queue.Take(kNow)->key, "a");
  EXPECT_EQ(queue.Take(kNow)->key, "b");
  queue.Add("a", kNow);
  EXPECT_FALSE(queue.Take(kNow).has_value()) << "a is still worked on";
  queue.Done("b", kNow);
  EXPECT_FALSE(queue.Take(kNow).has_value());
  queue.Done("a", kNow);
  EXPECT_EQ(Drain(&queue, kNow), "a");
}

// Checklist: delayed add shortened.
TEST(WorkQueue, TheEarlierOfTwoMomentsCounts) {
  Queue queue;
  queue.AddAt("a", kNow + seconds(5));
  queue.AddAt("a", kNow + seconds(9));
  EXPECT_EQ(queue.NextDue(), kNow + seconds(5));
  queue.AddAt("a", kNow + seconds(2));
  EXPECT_EQ(queue.NextDue(), kNow + seconds(2));
  EXPECT_EQ(Drain(&queue, kNow + seconds(1)), "");
  EXPECT_EQ(Drain(&queue, kNow + seconds(2)), "a");
  EXPECT_EQ(Drain(&queue, kNow + seconds(20)), "");
  queue.AddAt("b", kNow + seconds(5));
  queue.Add("b", kNow);
  queue.AddAt("b", kNow + seconds(5));
  EXPECT_EQ(Drain(&queue, kNow), "b");
  EXPECT_EQ(queue.NextDue(), std::nullopt) << "being due now includes being due later";
}

TEST(WorkQueue, DelayedKeysComeInTheOrderOfTheirMoments) {
  Queue queue;
  queue.AddAt("late", kNow + seconds(2));
  queue.AddAt("early", kNow + seconds(1));
  queue.Add("now", kNow);
  const auto first = queue.Take(kNow + seconds(3));
  EXPECT_EQ(first->key, "now");
  EXPECT_EQ(first->waited, seconds(3));
  queue.Done("now", kNow + seconds(3));
  const auto second = queue.Take(kNow + seconds(3));
  EXPECT_EQ(second->key, "early");
  EXPECT_EQ(second->waited, seconds(2)) << "waits since its moment";
}

// Checklist: Forget.
TEST(WorkQueue, FailuresBackOffUntilForgotten) {
  Queue queue({milliseconds(5), milliseconds(35)});
  for (const int delay : {5, 10, 20, 35, 35}) {
    queue.AddAfterFailure("a", kNow);
    EXPECT_EQ(queue.NextDue(), kNow + milliseconds(delay));
    Drain(&queue, kNow + seconds(1));
  }
  EXPECT_EQ(queue.counts().retries, 5);
  queue.Forget("a");
  queue.AddAfterFailure("a", kNow);
  EXPECT_EQ(queue.NextDue(), kNow + milliseconds(5));
  queue.AddAfterFailure("b", kNow);
  EXPECT_EQ(Drain(&queue, kNow + milliseconds(5)), "a b") << "each key has its own";
}

}  // namespace
}  // namespace lockstep::control::kube
