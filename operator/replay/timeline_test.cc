#include "operator/replay/timeline.h"

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

WallTime At(int64_t seconds) {
  return WallTime(std::chrono::seconds(seconds));
}

ResourceVector Gpus(int64_t count) {
  ResourceVector amounts;
  amounts.gpu_count = count;
  return amounts;
}

Snapshot NodesOf(int count, int64_t gpus) {
  Snapshot snapshot;
  for (int i = 0; i < count; ++i) {
    snapshot.nodes.push_back(MakeNode("n" + std::to_string(i), Gpus(gpus)));
  }
  return snapshot;
}

TEST(Timeline, WhatFitsNowOpensNow) {
  const Snapshot snapshot = NodesOf(2, 8);
  const Timeline timeline(SurveyOf(snapshot).open);
  const auto opening = timeline.EarliestOpening({MakeClass("w", 2, Gpus(8))}, At(5));
  ASSERT_TRUE(opening);
  EXPECT_EQ(opening->at, At(5));
}

TEST(Timeline, WaitsForAsManyEndsAsItNeeds) {
  const Snapshot snapshot = NodesOf(3, 8);
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(8), 1}});
  timeline.Begin("b", At(200), {{1, Gpus(1), 1}});
  timeline.Begin("c", At(300), {{2, Gpus(8), 1}});
  EXPECT_EQ(timeline.EarliestOpening({MakeClass("w", 1, Gpus(7))}, At(5))->at, At(5));
  EXPECT_EQ(timeline.EarliestOpening({MakeClass("w", 1, Gpus(8))}, At(5))->at, At(100));
  EXPECT_EQ(timeline.EarliestOpening({MakeClass("w", 2, Gpus(8))}, At(5))->at, At(200));
  EXPECT_EQ(timeline.EarliestOpening({MakeClass("w", 3, Gpus(8))}, At(5))->at, At(300));
  EXPECT_FALSE(timeline.EarliestOpening({MakeClass("w", 4, Gpus(8))}, At(5)));
}

TEST(Timeline, RoomsOfTheOpeningHaveAllThatEndsThen) {
  const Snapshot snapshot = NodesOf(2, 8);
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(8), 1}});
  timeline.Begin("b", At(100), {{1, Gpus(6), 1}});
  const auto opening = timeline.EarliestOpening({MakeClass("w", 1, Gpus(8))}, At(0));
  ASSERT_TRUE(opening);
  EXPECT_EQ(opening->rooms[0].free, Gpus(8));
  EXPECT_EQ(opening->rooms[1].free, Gpus(8));
}

TEST(Timeline, EndGivesBackWhatWasHeld) {
  const Snapshot snapshot = NodesOf(1, 8);
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(8), 1}});
  EXPECT_EQ(timeline.rooms()[0].free, Gpus(0));
  timeline.End("a");
  timeline.End("a");  // and only once
  EXPECT_EQ(timeline.rooms()[0].free, Gpus(8));
  EXPECT_FALSE(timeline.is_running("a"));
}

TEST(Timeline, OverdueGoOnForAsLongAsTheyHaveBeen) {
  const Snapshot snapshot = NodesOf(1, 8);
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(8), 1}});
  const std::vector<PodClass> classes = {MakeClass("w", 1, Gpus(8))};
  EXPECT_EQ(timeline.EarliestOpening(classes, At(100))->at, At(101));
  EXPECT_EQ(timeline.EarliestOpening(classes, At(160))->at, At(221));
}

TEST(Timeline, OverdueMayOutliveThoseWhoAreNot) {
  const Snapshot snapshot = NodesOf(2, 8);
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(8), 1}});
  timeline.Begin("b", At(170), {{1, Gpus(8), 1}});
  const std::vector<PodClass> classes = {MakeClass("w", 1, Gpus(8))};
  EXPECT_EQ(timeline.EarliestOpening(classes, At(160))->at, At(170));
}

TEST(Timeline, PodsThatNodesTakeAreRoomToo) {
  Snapshot snapshot = NodesOf(1, 8);
  snapshot.nodes[0].pod_count_max = 2;
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(1), 1}});
  EXPECT_EQ(timeline.EarliestOpening({MakeClass("w", 2, Gpus(1))}, At(0))->at, At(100));
}

TEST(Timeline, ClassesFitTogetherOrNotYet) {
  const Snapshot snapshot = NodesOf(2, 8);
  Timeline timeline(SurveyOf(snapshot).open);
  timeline.Begin("a", At(100), {{0, Gpus(4), 1}});
  timeline.Begin("b", At(200), {{1, Gpus(4), 1}});
  // Each fits at 100 alone: the whole node, or the half.
  EXPECT_EQ(
      timeline
          .EarliestOpening({MakeClass("whole", 1, Gpus(8)), MakeClass("rest", 1, Gpus(5))}, At(0))
          ->at,
      At(200));
  EXPECT_EQ(
      timeline
          .EarliestOpening({MakeClass("whole", 1, Gpus(8)), MakeClass("rest", 1, Gpus(4))}, At(0))
          ->at,
      At(100));
}

TEST(Timeline, AgreesWithTryingEveryMoment) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Prng prng(seed);
    const Snapshot snapshot = NodesOf(3, 4);
    Timeline timeline(SurveyOf(snapshot).open);
    std::map<int64_t, std::vector<RoomHold>> by_end;
    for (int i = 0; i < 6; ++i) {
      const RoomHold hold{prng.Below(3), Gpus(1 + static_cast<int64_t>(prng.Below(3))), 1};
      if (timeline.rooms()[hold.room].free.gpu_count < hold.amounts.gpu_count) {
        continue;
      }
      const auto end = static_cast<int64_t>(10 + prng.Below(5));
      timeline.Begin("g" + std::to_string(i), At(end), {hold});
      by_end[end].push_back(hold);
    }
    std::vector<PodClass> classes = {
        MakeClass("a", 1 + static_cast<int>(prng.Below(3)), Gpus(2 + prng.Below(3)))};
    if (prng.Below(2) == 0) {
      classes.push_back(MakeClass("b", 1, Gpus(1)));
    }

    std::vector<NodeRoom> rooms = timeline.rooms();
    std::optional<int64_t> expected;
    if (PackWhole(rooms, classes)) {
      expected = 0;
    }
    for (const auto& [end, holds] : by_end) {
      for (const RoomHold& hold : holds) {
        GiveBackHold(hold, &rooms[hold.room]);
      }
      if (!expected && PackWhole(rooms, classes)) {
        expected = end;
      }
    }

    const auto opening = timeline.EarliestOpening(classes, At(0));
    ASSERT_EQ(opening.has_value(), expected.has_value()) << "seed " << seed;
    if (opening) {
      ASSERT_EQ(opening->at, At(*expected)) << "seed " << seed;
      ASSERT_TRUE(FitsWhole(opening->rooms, classes)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep::control
