#include "operator/controller/queue/queue_hours.h"

#include <gtest/gtest.h>

#include "operator/controller/queue/queue_report.h"
#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

std::map<std::string, QueueAmounts> Uses(int64_t gpus) {
  return {{"vision", {{kGpu, gpus}, {"cpu", 1500}, {"memory", int64_t{1} << 40}}}};
}

Json Stored(const char* gpu_hours) {
  return {{"usedHours", {{kGpu, gpu_hours}}}};
}

TEST(QueueHours, AreAmountsTimesHoursOfDevicesAndCores) {
  QueueHours hours;
  hours.Note(At(0), Uses(2));
  EXPECT_TRUE(hours.Total("vision", Json()).empty()) << "not for any time yet";
  hours.Note(At(1800), Uses(4));
  hours.Note(At(2700), Uses(0));
  EXPECT_EQ(hours.Total("vision", Json()), (UsedHours{{kGpu, "2"}, {"cpu", "1.125"}}));
  hours.Note(At(3600), Uses(0));
  EXPECT_EQ(hours.Total("vision", Json())[kGpu], "2");
}

TEST(QueueHours, GoOnFromWhatIsStored) {
  QueueHours hours;
  hours.Note(At(0), Uses(1));
  hours.Note(At(1801), Uses(1));
  EXPECT_EQ(hours.Total("vision", Stored("12.25"))[kGpu], "12.75");
  EXPECT_EQ(hours.Total("vision", Stored("many"))[kGpu], "0.5");
  EXPECT_EQ(hours.Total("vision", {{"usedHours", 7}})[kGpu], "0.5");
}

// The answer to a write may be lost, or late, or no; the stored status says which.
TEST(QueueHours, WhatIsStoredIsNotCountedTwice) {
  QueueHours hours;
  hours.Note(At(0), Uses(1));
  hours.Note(At(3600), Uses(1));
  UsedHours first = hours.Total("vision", Stored("10"));
  EXPECT_EQ(first[kGpu], "11");
  hours.NoteWrite("vision", Stored("10"), first);
  hours.Note(At(7200), Uses(1));
  UsedHours second = hours.Total("vision", Stored("10"));
  EXPECT_EQ(second[kGpu], "12") << "nothing of it is seen";
  hours.NoteWrite("vision", Stored("10"), second);

  hours.Note(At(10'800), Uses(1));
  EXPECT_EQ(hours.Total("vision", {{"usedHours", first}})[kGpu], "13") << "the first was stored";
  EXPECT_EQ(hours.Total("vision", Stored("0"))[kGpu], "2") << "somebody has set it back since";
}

// Of a device that is counted in bytes, such as shares of a GPU's memory.
TEST(QueueHours, OfLargeAmountsNeitherBeginAnewNorTurnNegative) {
  constexpr const char* kMemory = "vendor.example/memory";
  constexpr int64_t kPetabyte = 1'000'000'000'000'000;
  QueueHours hours;
  hours.Note(At(0), {{"vision", {{kMemory, kPetabyte}}}});
  hours.Note(At(9), {{"vision", {{kMemory, kPetabyte}}}});
  EXPECT_EQ(hours.Total("vision", {{"usedHours", {{kMemory, "100000000000000.5"}}}})[kMemory],
            "102500000000000.5");
  EXPECT_EQ(hours.Total("vision", {{"usedHours", {{kMemory, "1000000000000000"}}}})[kMemory],
            "999999999999999.999")
      << "the most that is told";
  hours.Note(At(36'000), {{"vision", {}}});
  EXPECT_EQ(hours.Total("vision", Json())[kMemory], "2562047788015.215") << "the most of one write";
}

TEST(QueueHours, WhatIsLessThanAThousandthIsKeptForLater) {
  QueueHours hours;
  Json stored = Stored("0");
  hours.Note(At(0), Uses(1));
  for (int i = 1; i <= 10; ++i) {
    hours.Note(At(5 * i), Uses(1));
    UsedHours total = hours.Total("vision", stored);
    hours.NoteWrite("vision", stored, total);
    stored = {{"usedHours", total}};
  }
  EXPECT_EQ(stored["usedHours"][kGpu], "0.013") << "of 50 s, 0.0138";
}

class ReportedHoursTest : public RoundBench {
 protected:
  ReportedHoursTest() {
    AddNode("node-a", 4);
    AddQueue("vision", 4, 0);
    AddPlacedJob("first", 2, "node-a", "vision");
  }

  // What is written then; null: nothing. It is stored.
  Json Report(QueueReporter* reporter, int64_t second) {
    const auto patches = reporter->Take(At(second), now_ + std::chrono::seconds(second));
    if (patches.empty()) {
      return Json();
    }
    StoredQueue stored = QueueOf("vision", 4, 0);
    stored.status = ParseJson(patches.front().second).value()["status"];
    Tell(stored);
    return stored.status;
  }

  void DeleteQueue() {
    view_.Apply(
        kube::ObjectUpdate<StoredQueue>(kube::Deleted<StoredQueue>{
            {{"", "vision"}, "vision", NextVersion(), std::make_shared<const StoredQueue>()}}),
        &news_);
  }

  QueueReporter reporter_{&view_};
};

TEST_F(ReportedHoursTest, AreStoredEveryMinuteWhileSomethingIsHeld) {
  const Json first = Report(&reporter_, 0);
  EXPECT_EQ(first["usedHours"], Json::object());
  EXPECT_EQ(first["usedHoursSince"], FormatRfc3339(now_));
  EXPECT_EQ(reporter_.NextReport(), At(60));
  EXPECT_TRUE(Report(&reporter_, 59).is_null());
  EXPECT_EQ(Report(&reporter_, 60)["usedHours"][kGpu], "0.033");
  EXPECT_EQ(reporter_.NextReport(), At(120));

  view_.LearnJobIsGone(KeyOf("first"), "uid-first", &news_);
  EXPECT_EQ(reporter_.NextReport(), At(65));
  const Json last = Report(&reporter_, 90);
  EXPECT_EQ(last["usedHours"][kGpu], "0.05") << "with what else is new";
  EXPECT_EQ(last["usedHoursSince"], first["usedHoursSince"]);
  EXPECT_FALSE(reporter_.NextReport().has_value()) << "nothing is held any more";
}

TEST_F(ReportedHoursTest, NextLeaderGoesOnFromThere) {
  Report(&reporter_, 0);
  Report(&reporter_, 3600);
  QueueReporter next(&view_);
  EXPECT_TRUE(Report(&next, 5000).is_null()) << "nobody counts what was held meanwhile";
  EXPECT_EQ(Report(&next, 5060)["usedHours"][kGpu], "2.033");

  reporter_.Lead(At(9000), now_);  // it lost its lead at some time, and has it again
  EXPECT_TRUE(Report(&reporter_, 9000).is_null());
  EXPECT_EQ(Report(&reporter_, 9060)["usedHours"][kGpu], "2.066");
}

// The job runs on meanwhile.
TEST_F(ReportedHoursTest, TimeWithoutTheOnlyQueueIsNotThatOfTheNextOfItsName) {
  Report(&reporter_, 0);
  Report(&reporter_, 60);
  DeleteQueue();
  EXPECT_TRUE(Report(&reporter_, 65).is_null());

  AddQueue("vision", 4, 0);
  const Json first = Report(&reporter_, 7265);
  EXPECT_EQ(first["usedHours"], Json::object());
  EXPECT_EQ(first["usedHoursSince"], FormatRfc3339(now_ + std::chrono::seconds(7265)));
  EXPECT_EQ(Report(&reporter_, 7325)["usedHours"][kGpu], "0.033");
}

}  // namespace
}  // namespace lockstep::control
