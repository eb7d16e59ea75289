#include "operator/controller/control_loop.h"

#include <chrono>
#include <optional>

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"

namespace lockstep::control {
namespace {

class ControlLoopTest : public testing::Test, protected ApiClusterWorld {
 protected:
  // What is to be asked of the job's pods from now on; null: as before.
  std::optional<std::size_t> TargetsOfMnist() {
    for (const ControlLoop::PollChange& change : loop_.TakePollChanges()) {
      if (change.job == kMnist) {
        return change.targets.size();
      }
    }
    return std::nullopt;
  }

  // Lets the job have a turn.
  void Turn() {
    now_ += std::chrono::minutes(1);
    while (loop_.Step(now_).empty()) {
      ASSERT_FALSE(api_.answers.empty());
      loop_.Accept(std::move(api_.answers.front()));
      api_.answers.pop_front();
    }
  }

  static constexpr WallTime kWallNow{std::chrono::hours(500'000)};

  TimePoint now_{std::chrono::seconds(1000)};
  ControlLoop loop_{{}, {&api_, &control_, &publisher_, logger_.get()}};
};

// As on a cluster where a platform engineer has set up queues and nobody has trained yet.
TEST_F(ControlLoopTest, QueuesAloneAreReportedAndThenThereIsNothingToDo) {
  const auto queue = DecodeStoredQueue(R"({
    "metadata": {"name": "vision", "uid": "q", "resourceVersion": "7"},
    "spec": {"nominal": {"nvidia.com/gpu": 2}}})");
  ASSERT_TRUE(queue.ok());
  loop_.Apply(kube::ObjectUpdate<StoredQueue>(kube::Upserted<StoredQueue>{*queue}), now_);
  loop_.Lead("master", now_, kWallNow);
  loop_.Step(now_);
  ASSERT_EQ(api_.answers.size(), 1U) << "the status of the queue";
  EXPECT_GT(loop_.NextStep().value_or(TimePoint::max()), now_);
}

// A clock that was wrong when the process began has mostly been set when it comes to lead.
TEST_F(ControlLoopTest, CalendarIsThatOfTheMomentOfLeading) {
  loop_.Lead("master", now_, kWallNow);
  loop_.StandBy(now_);
  now_ += std::chrono::minutes(5);
  const WallTime later = kWallNow + std::chrono::hours(7);
  loop_.Lead("master", now_, later);
  EXPECT_EQ(loop_.controller().calendar().At(now_ + std::chrono::seconds(1)),
            later + std::chrono::seconds(1));
}

TEST_F(ControlLoopTest, WhatAPodMayAnswerIsBounded) {
  Json pod = ParseJson(PodBody(job_.metadata.uid)).value();
  pod["status"]["podIP"] = "10.0.0.1";
  loop_.Apply(kube::ObjectUpdate<StoredJob>(
                  kube::Upserted<StoredJob>{DecodeStoredJob(JobBody("10")).value()}),
              now_);
  loop_.Apply(kube::ObjectUpdate<kube::Pod>(
                  kube::Upserted<kube::Pod>{kube::DecodePod(DumpJson(pod)).value()}),
              now_);
  loop_.Lead("master", now_, kWallNow);
  Turn();
  const std::vector<ControlLoop::PollChange> changes = loop_.TakePollChanges();
  ASSERT_EQ(changes.size(), 1U);
  ASSERT_EQ(changes.front().targets.size(), 1U);
  EXPECT_EQ(changes.front().answer_bytes_max, 256U * 1024 + 256U * job_.WorldSize());
}

TEST_F(ControlLoopTest, PodsOfAJobThatIsGoneAreNotAskedAfterTheLeadIsLost) {
  const auto job = DecodeStoredJob(JobBody("10")).value();
  Json pod = ParseJson(PodBody(job_.metadata.uid)).value();
  pod["status"]["podIP"] = "10.0.0.1";
  loop_.Apply(kube::ObjectUpdate<StoredJob>(kube::Upserted<StoredJob>{job}), now_);
  loop_.Apply(kube::ObjectUpdate<kube::Pod>(
                  kube::Upserted<kube::Pod>{kube::DecodePod(DumpJson(pod)).value()}),
              now_);
  loop_.Lead("master", now_, kWallNow);
  Turn();
  ASSERT_EQ(TargetsOfMnist(), 1U);

  loop_.Apply(kube::ObjectUpdate<StoredJob>(kube::Deleted<StoredJob>{job}), now_);
  loop_.StandBy(now_);
  EXPECT_EQ(TargetsOfMnist(), 0U);
}

}  // namespace
}  // namespace lockstep::control
