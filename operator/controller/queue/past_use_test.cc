#include "operator/controller/queue/past_use.h"

#include <gtest/gtest.h>

#include "operator/controller/queue/queue_report.h"
#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST(PastUse, IsTheMeanByHalves) {
  PastUse past(std::chrono::hours(1));
  past.Note(At(0), {{"a", {{kGpu, 8}, {"cpu", 4000}, {"memory", 1 << 20}}}, {"b", {}}});
  EXPECT_TRUE(past.Means().empty());
  past.Note(At(3600), {{"a", {}}, {"b", {{kGpu, 1}}}});
  EXPECT_EQ(past.Means(), (PastUseByQueue{{"a", {{"cpu", 2'000'000}, {kGpu, 4000}}}}));
  EXPECT_EQ(DumpJson(past.StatusOf("a")), R"({"cpu":"2","nvidia.com/gpu":"4"})");
  EXPECT_EQ(DumpJson(past.StatusOf("b")), "{}");
  past.Note(At(7200), {{"a", {}}, {"b", {}}});
  EXPECT_EQ(past.Means(),
            (PastUseByQueue{{"a", {{"cpu", 1'000'000}, {kGpu, 2000}}}, {"b", {{kGpu, 500}}}}));
  past.Note(At(7200), {{"b", {}}});
  EXPECT_EQ(past.Means(), (PastUseByQueue{{"b", {{kGpu, 500}}}})) << "a is gone";
  EXPECT_TRUE(past.is_decaying());
  past.Note(At(1'000'000), {{"b", {}}});
  EXPECT_FALSE(past.is_decaying()) << "nothing is left to look at each minute";
}

TEST(PastUse, WhatIsStoredHasDecayedWhileNobodyLed) {
  const Json stored = {{"pastUse", {{kGpu, "6.5"}, {"cpu", "3"}, {"memory", "9"}, {"x.y/z", 7}}},
                       {"pastUseAt", "2026-11-24T10:00:00Z"}};
  const WallTime two_later = *ParseRfc3339("2026-11-24T12:00:00Z");
  PastUse past(std::chrono::hours(1));
  past.Lead(At(0),
            two_later,
            {{"a", stored},
             {"b", Json()},
             {"c", {{"pastUse", {{kGpu, "5"}}}}},
             {"d", {{"pastUse", 3}, {"pastUseAt", "2026-11-24T10:00:00Z"}}}});
  EXPECT_EQ(past.Means(), (PastUseByQueue{{"a", {{"cpu", 750'000}, {kGpu, 1625}}}}));
  past.Lead(At(0), *ParseRfc3339("2026-11-24T09:00:00Z"), {{"a", stored}});
  EXPECT_EQ(past.Means().at("a").at(kGpu), 6500) << "calendars differ";
}

TEST(PastUse, WithoutAHalfLifeThereIsNone) {
  PastUse past;
  past.Lead(
      At(0), {}, {{"a", {{"pastUse", {{kGpu, "5"}}}, {"pastUseAt", "2026-11-24T10:00:00Z"}}}});
  past.Note(At(0), {{"a", {{kGpu, 8}}}});
  past.Note(At(3600), {{"a", {}}});
  EXPECT_TRUE(past.Means().empty());
}

class ReportedPastTest : public RoundBench {
 protected:
  ReportedPastTest() {
    AddNode("node-a", 4);
    AddQueue("vision", 4, 0);
    AddPlacedJob("first", 2, "node-a", "vision");
  }

  WallTime WallAt(int64_t second) { return now_ + seconds(second); }

  // What is written then; null: nothing. It is stored, by the rules of a merge patch.
  Json Report(QueueReporter* reporter, int64_t second) {
    const auto patches = reporter->Take(At(second), WallAt(second));
    if (patches.empty()) {
      return Json();
    }
    status_.merge_patch(ParseJson(patches.front().second).value()["status"]);
    StoredQueue stored = QueueOf("vision", 4, 0);
    stored.status = status_;
    Tell(stored);
    return status_;
  }

  PastUseByQueue Known() { return view_.Scheduling(now_).state().queues().past_use(); }

  Json status_ = Json::object();
};

TEST_F(ReportedPastTest, RoundsKnowItAndTheNextLeaderGoesOnFromIt) {
  QueueReporter reporter(&view_, std::chrono::hours(1));
  reporter.Lead(At(0), WallAt(0));
  EXPECT_EQ(Report(&reporter, 0)["pastUse"], Json::object());
  const Json later = Report(&reporter, 3600);
  EXPECT_EQ(later["pastUse"][kGpu], "1");
  EXPECT_EQ(later["pastUseAt"], FormatRfc3339(WallAt(3600)));
  EXPECT_EQ(Known(), (PastUseByQueue{{"vision", {{kGpu, 1000}}}}));

  view_.Scheduling(now_).SetPastUse({});  // another process
  QueueReporter next(&view_, std::chrono::hours(1));
  next.Lead(At(7200), WallAt(7200));
  EXPECT_EQ(Known(), (PastUseByQueue{{"vision", {{kGpu, 500}}}})) << "before its first round";
  Report(&next, 7200);
  EXPECT_EQ(Report(&next, 10'800)["pastUse"][kGpu], "1.25");
}

TEST_F(ReportedPastTest, WhatWasHeldInADeletedQueueIsNotThatOfOneOfTheSameName) {
  QueueReporter reporter(&view_, std::chrono::hours(1));
  Report(&reporter, 0);
  view_.Apply(
      kube::ObjectUpdate<StoredQueue>(kube::Deleted<StoredQueue>{
          {{"", "vision"}, "vision", NextVersion(), std::make_shared<const StoredQueue>()}}),
      &news_);
  Report(&reporter, 60);
  status_ = Json::object();
  AddQueue("vision", 4, 0);
  EXPECT_EQ(Report(&reporter, 7200)["pastUse"], Json::object());
}

TEST_F(ReportedPastTest, IsWrittenNoOftenerThanHoursAre) {
  QueueReporter reporter(&view_, std::chrono::hours(1));
  Report(&reporter, 0);
  EXPECT_EQ(reporter.NextReport(), At(60));
  EXPECT_FALSE(Report(&reporter, 60).is_null());
  StoredQueue stored = QueueOf("vision", 4, 0);
  stored.status = status_;
  Tell(stored);
  EXPECT_TRUE(Report(&reporter, 65).is_null());
}

TEST_F(ReportedPastTest, IsTakenOutWhereTheOperatorKeepsNone) {
  QueueReporter keeps(&view_, std::chrono::hours(1));
  Report(&keeps, 0);
  ASSERT_TRUE(Report(&keeps, 3600).contains("pastUse"));
  QueueReporter other(&view_);
  other.Lead(At(3600), WallAt(3600));
  const Json status = Report(&other, 3600);
  EXPECT_FALSE(status.contains("pastUse")) << DumpJson(status);
  EXPECT_FALSE(status.contains("pastUseAt"));
  EXPECT_TRUE(Report(&other, 3605).is_null());
}

}  // namespace
}  // namespace lockstep::control
