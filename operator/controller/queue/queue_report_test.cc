#include "operator/controller/queue/queue_report.h"

#include <gtest/gtest.h>

#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

class QueueReportTest : public RoundBench {
 protected:
  TimePoint At(int64_t second) { return TimePoint{} + std::chrono::seconds(1000 + second); }

  QueueReporter reporter_{&view_};
};

TEST_F(QueueReportTest, WithoutQueuesThereIsNothingToReport) {
  AddNode("node-a", 1);
  AddJob("first", 1);

  EXPECT_FALSE(reporter_.NextReport().has_value());
  EXPECT_TRUE(reporter_.Take(At(0), now_).empty());
}

TEST_F(QueueReportTest, OnlyWhatHasChangedIsWrittenAndNotOften) {
  AddNode("node-a", 2);
  AddQueue("vision", 2, 0);
  AddQueue("speech", 2, 0);
  const auto first = reporter_.Take(At(0), now_);
  ASSERT_EQ(first.size(), 2U);
  for (const auto& [name, body] : first) {
    StoredQueue stored = QueueOf(name, 2, 0);
    stored.status = ParseJson(body).value()["status"];
    Tell(stored);
  }
  EXPECT_FALSE(reporter_.NextReport().has_value()) << "what was written is no news";

  AddJob("first", 1);
  TrainingJob job = Stored("first");
  job.spec.scheduling.queue = "vision";
  Store(job);
  EXPECT_TRUE(reporter_.Take(At(1), now_).empty()) << "a moment ago it was written";
  EXPECT_EQ(reporter_.NextReport(), At(5));
  const auto second = reporter_.Take(At(5), now_);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second.front().first, "vision");
  EXPECT_EQ(ParseJson(second.front().second).value()["status"]["waiting"], 1);
}

// An API server gives back what was written in an order of its own.
TEST_F(QueueReportTest, OrderOfWhatIsStoredIsNoChange) {
  AddNode("node-a", 2);
  AddQueue("vision", 2, 0);
  const auto first = reporter_.Take(At(0), now_);
  ASSERT_EQ(first.size(), 1U);
  StoredQueue stored = QueueOf("vision", 2, 0);
  const Json written = ParseJson(first.front().second).value()["status"];
  std::map<std::string, Json> sorted;
  for (const auto& [key, value] : written.items()) {
    sorted[key] = value;
  }
  stored.status = sorted;
  Tell(stored);

  AddNode("node-b", 2);
  EXPECT_TRUE(reporter_.Take(At(5), now_).empty());
}

TEST_F(QueueReportTest, WhatCouldNotBeWrittenIsDueAgainThoughNothingIsNew) {
  AddQueue("vision", 2, 0);
  ASSERT_EQ(reporter_.Take(At(0), now_).size(), 1U);
  ASSERT_FALSE(reporter_.NextReport().has_value());

  reporter_.NoteFailed();
  EXPECT_EQ(reporter_.NextReport(), At(60));
  EXPECT_EQ(reporter_.Take(At(60), now_).size(), 1U);
  EXPECT_FALSE(reporter_.NextReport().has_value());
}

// Another replica may lead by now, and may have written.
TEST_F(QueueReportTest, WriteIsRefusedWhereTheQueueIsNotTheOneThatWasSeen) {
  StoredQueue stored = QueueOf("vision", 2, 0);
  stored.version = "17";
  Tell(stored);

  const auto patches = reporter_.Take(At(0), now_);
  ASSERT_EQ(patches.size(), 1U);
  EXPECT_EQ(ParseJson(patches.front().second).value()["metadata"]["resourceVersion"], "17");
}

TEST_F(QueueReportTest, AmountThatIsNoLongerUsedIsTakenOut) {
  StoredQueue stored = QueueOf("vision", 2, 0);
  stored.status = ParseJson(R"({"used": {"nvidia.com/gpu": "2"}})").value();
  Tell(stored);

  const auto patches = reporter_.Take(At(0), now_);
  ASSERT_EQ(patches.size(), 1U);
  EXPECT_TRUE(
      ParseJson(patches.front().second).value()["status"]["used"]["nvidia.com/gpu"].is_null());
}

// A node that is lost for good has its pods for ever: nobody is to write for that each minute.
TEST_F(QueueReportTest, WhatIsStuckIsUsedAndCountsForNoHours) {
  AddNode("node-a", 2);
  StoredQueue vision = QueueOf("vision", 2, 0);
  Tell(vision);
  JobStand suspended;
  suspended.request.name = GangNameOf(KeyOf("went"));
  suspended.request.queue = "vision";
  suspended.stuck = {{"node-a", {{0, 0, 1}, 1}}};
  view_.Scheduling(now_).SetJob(KeyOf("went"), suspended);

  const auto patches = reporter_.Take(At(0), now_);
  ASSERT_EQ(patches.size(), 1U);
  vision.status = ParseJson(patches.front().second).value()["status"];
  EXPECT_EQ(vision.status["used"]["nvidia.com/gpu"], "1");
  Tell(vision);
  EXPECT_FALSE(reporter_.NextReport().has_value());
}

}  // namespace
}  // namespace lockstep::control
